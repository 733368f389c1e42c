"""Results, clause by clause: what is said of nothing, what stays as it was sent, and which files have changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from ostler.protocol.ids import ResultId
from ostler.server.engine.calls.result_limits import stand_in
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from tests.server.engine.turn.test_stale_files import ALLOW, hints, play, read, runs
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message, says

DONE = message(says("Done."))


def sent(talk: Talk, place: int) -> bytes:
    """A message of the newest request, as the model got it."""
    return orjson.dumps(talk.requests[-1].messages[place]["content"])


# Nothing.


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(Bash completed with no output)"),
        (r"printf '\n \n\t\n'", "(Bash completed with no output)"),
        (r"printf '\033[0m\r'", "(Bash completed with no output)"),
        ("exit 3", "(exit code 3)"),
    ],
)
def test_a_command_that_prints_nothing_is_said_to_have_done_so(stage: Stage, command: str, text: str) -> None:
    talk = stage.talk(rules=ALLOW)
    play(stage, talk, runs(command))
    assert talk.result_texts() == [text]
    # For clients nothing is added.
    assert "completed" not in talk.all("tool.completed")[0]["call"]["output"]["stdout"]


# What was sent once.


def test_a_result_that_was_replaced_stays_so_under_a_larger_limit(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_RESULTS__MAX_CHARS='{"Bash": 5000}')
    talk = stage.talk(message(runs("seq 1 2000")), otherwise=DONE, rules=ALLOW)
    talk.turn()
    first = sent(talk, 2)
    assert first.count(b"<persisted-output>") == 1
    stage.daemon.environment["OSTLER_RESULTS__MAX_CHARS"] = '{"Bash": 50000}'
    stage.restart()
    talk.turn("Once more.")
    assert sent(talk, 2) == first
    assert stage.api.prefix_changes == []


def test_a_result_that_was_shown_whole_stays_so_under_a_smaller_limit(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(message(runs("seq 1 2000")), otherwise=DONE, rules=ALLOW)
    talk.turn()
    first = sent(talk, 2)
    assert b"<persisted-output>" not in first
    stage.daemon.environment |= {
        "OSTLER_RESULTS__MAX_CHARS": '{"Bash": 4000}',
        "OSTLER_RESULTS__PER_MESSAGE_CHARS": "10000",
    }
    stage.restart()
    talk.turn("Once more.")
    assert sent(talk, 2) == first
    assert stage.api.prefix_changes == []


def test_what_a_command_printed_can_be_downloaded_until_its_session_is_gone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    play(stage, talk, runs("seq 1 20000; echo é"))
    result_id = talk.all("tool.completed")[0]["call"]["result_id"]
    answer = stage.daemon.http("GET", f"/results/{result_id}")
    assert answer.status == 200
    assert answer.body.decode() == "".join(f"{number}\n" for number in range(1, 20_001)) + "é"
    assert stage.daemon.http("GET", f"/results/{result_id}", authorised=False).status == 401
    stage.daemon.call("session/delete", session_id=talk.id)
    assert stage.daemon.http("GET", f"/results/{result_id}").status == 404


def test_both_shells_show_the_end_where_a_builds_error_stands() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000)) + "error: last"
    for tool in (Bash(), PowerShell()):
        shown = stand_in(tool, text, ResultId("r_1"))["text"]
        assert "First and last 1.0 KB:\nline 0\n" in shown
        assert shown.endswith("\nerror: last\n</persisted-output>")


# Files that were read before.


def test_a_command_that_fails_after_a_change_is_told_of_too(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), runs(f"echo beta >> {path}; exit 3"))
    assert hints(talk) == [[], [f"- {path}"]]


def test_a_command_that_is_stopped_after_a_change_is_told_of_too(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    command = f"echo beta >> {path}; touch ready; sleep 1000"
    stage.api.script(talk.name, message(read(path)), message(runs(command)), otherwise=DONE)
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    assert hints(talk) == [[], [f"- {path}"]]


def test_a_file_that_was_not_read_is_not_named(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path, other = talk.file("a.txt", "alpha\n"), talk.file("b.txt", "beta\n")
    play(stage, talk, read(path), runs(f"echo more >> {other}"))
    assert hints(talk) == [[], []]


def test_what_reads_only_looks_at_nothing(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    gate: dict[str, Any] = {"path": talk.gate("go"), "reads": True}
    stage.api.script(talk.name, message(read(path)), message(calls("Gate", gate)), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("go")
    Path(path).write_text("another\n")
    talk.open_gate("go")
    talk.ended(turn_id)
    assert hints(talk) == [[], []]


def test_a_change_behind_a_call_is_named_after_the_next_that_is_not_read_only(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    behind = calls("Bash", {"command": f"echo beta >> {path}", "run_in_background": True})
    stage.api.script(talk.name, message(read(path)), DONE, message(behind), DONE, message(runs("true")), otherwise=DONE)
    talk.turn()
    talk.turn()
    talk.wait("task.ended")
    talk.turn()
    assert [f"- {path}"] in hints(talk)
    assert sum(map(len, hints(talk))) == 1
