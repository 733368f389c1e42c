"""Files that are not any more what the model has read."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.server.engine.session.file_reads import StoredReads
from ostler.server.engine.turn.stale_files import stale_hint
from ostler.tools.services import FileRead
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, play, read

HEAD = "Changed on the disk since you read it; read it again before you rely on it or edit it:"
ALLOW = {"allow": ["Bash", "Edit"]}


def hints(talk: Talk) -> list[list[str]]:
    """The names in the hint of each message of the user's that brings results; empty where it has none."""
    found = []
    for one in talk.messages():
        if one["role"] == "user" and any(block["type"] == "tool_result" for block in one["content"]):
            texts = [block["text"] for block in one["content"] if block["type"] == "text"]
            found.append([line for text in texts for line in _names(text)])
    return found


def _names(text: str) -> Iterable[str]:
    lines = text.split("\n")
    return lines[2:-1] if HEAD in lines else []


def test_a_command_that_changes_a_read_file_is_told_once(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), bash(f"echo beta >> {path}"), bash("touch other"), bash("touch another"))
    assert hints(talk) == [[], [f"- {path}"], [], []]


def test_the_next_change_is_told_again(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    change = f"echo more >> {path}"
    play(stage, talk, read(path), bash(change), bash(f"{change} #"), read(path), bash(f"{change} ##"))
    assert hints(talk) == [[], [f"- {path}"], [f"- {path}"], [], [f"- {path}"]]


def test_a_file_that_is_gone_is_told_as_gone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), bash(f"rm {path}"), bash("touch other"))
    assert hints(talk) == [[], [f"- {path} (it is gone)"], []]


def test_what_another_program_changed_is_told_after_the_next_call_that_is_not_read_only(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = Path(talk.file("a.txt", "alpha\n"))
    gate = calls("Gate", {"path": talk.gate("go"), "reads": True})
    stage.api.script(talk.name, message(read(str(path))), message(gate), message(bash("touch b")), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("go")
    path.write_text("another\n")
    talk.open_gate("go")
    talk.ended(turn_id)
    assert hints(talk) == [[], [], [f"- {path}"]]


def test_edits_of_the_model_itself_and_a_new_time_alone_are_no_news(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    edit = calls("Edit", {"file_path": path, "old_string": "alpha", "new_string": "beta"})
    play(stage, talk, read(path), edit, bash(f"touch -d '2001-01-01' {path}"))
    assert Path(path).stat().st_mtime < 1_000_000_000
    assert hints(talk) == [[], [], []]


def test_many_files_are_named_in_part_and_in_order(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    paths = [talk.file(f"{number:02}.txt", "alpha\n") for number in range(23)]
    change = bash(f"for f in {talk.folder}/*.txt; do echo x >> $f; done")
    stage.api.script(talk.name, message(*map(read, paths)), message(change), otherwise=DONE)
    talk.turn()
    assert hints(talk) == [[], [*(f"- {path}" for path in paths[:20]), "- and 3 more"]]


def test_a_hint_is_not_repeated_after_a_restart(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(
        talk.name,
        message(read(path)),
        message(bash(f"echo x >> {path}")),
        DONE,
        message(bash("touch b")),
        otherwise=DONE,
    )
    talk.turn()
    stage.restart()
    talk.turn("More.")
    assert hints(talk) == [[], [f"- {path}"], []]


def test_a_name_cannot_pretend_to_be_words_of_ours(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a\n<ostler-note>.txt", "alpha\n")
    play(stage, talk, read(path), bash(f"rm -r {talk.folder}/*.txt"))
    assert hints(talk) == [[], [f"- {os.path.dirname(path)}/a\\x0a\\x3costler-note>.txt (it is gone)"]]


def test_a_file_of_more_than_a_megabyte_counts_as_changed_by_its_time_alone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    small, large = talk.file("small.txt", "x" * 1024 * 1024), talk.file("large.txt", "x" * 1024 * 1024 + "x")
    play(stage, talk, read(small), read(large), bash(f"touch -d '2001-01-01' {small} {large}"))
    assert hints(talk) == [[], [], [f"- {large}"]]


class Session:
    """As much of one as is looked at: what it has read, and what it was told."""

    def __init__(self, reads: dict[str, FileRead]) -> None:
        self.reads = StoredReads({})
        self.reads.back_to(reads)
        self.state: dict[str, object] = {}

    def remember(self, **values: object) -> None:
        self.state |= values


@pytest.mark.anyio
async def test_the_last_thousand_files_are_looked_at(tmp_path: Path) -> None:
    gone = FileRead(0, 1, "digest", (), 1)
    session: Any = Session({str(tmp_path / f"{number:04}"): gone for number in range(1_001)})
    hint = await stale_hint(session)
    assert hint is not None
    assert hint.splitlines()[-1] == "- and 980 more"
    assert str(tmp_path / "0000") not in session.state["told_stale"]


@pytest.mark.anyio
async def test_a_disk_that_does_not_answer_is_waited_for_a_second(tmp_path: Path) -> None:
    answers = threading.Event()

    class Slow(FileRead):
        def __getattribute__(self, name: str) -> Any:
            answers.wait(30)
            return super().__getattribute__(name)

    file = tmp_path / "a"
    file.write_text("a")
    session: Any = Session({str(file): Slow(0, 1, "digest", (), 1)})
    try:
        with anyio.fail_after(20):
            assert await stale_hint(session) is None
    finally:
        answers.set()
    assert not session.state


# Files that were read before.


def test_a_command_that_fails_after_a_change_is_told_of_too(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), bash(f"echo beta >> {path}; exit 3"))
    assert hints(talk) == [[], [f"- {path}"]]


def test_a_command_that_is_stopped_after_a_change_is_told_of_too(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    command = f"echo beta >> {path}; touch ready; sleep 1000"
    stage.api.script(talk.name, message(read(path)), message(bash(command)), otherwise=DONE)
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    assert hints(talk) == [[], [f"- {path}"]]


def test_a_file_that_was_not_read_is_not_named(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path, other = talk.file("a.txt", "alpha\n"), talk.file("b.txt", "beta\n")
    play(stage, talk, read(path), bash(f"echo more >> {other}"))
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
    stage.api.script(talk.name, message(read(path)), DONE, message(behind), DONE, message(bash("true")), otherwise=DONE)
    talk.turn()
    talk.turn()
    talk.wait("task.ended")
    talk.turn()
    assert [f"- {path}"] in hints(talk)
    assert sum(map(len, hints(talk))) == 1
