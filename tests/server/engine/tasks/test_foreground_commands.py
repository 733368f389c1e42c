"""Commands in the foreground: progress, what an interrupt shows of their output, and the file they print to."""

import re
from pathlib import Path

from tests.support.background_commands import ended, talk_behind, until
from tests.support.daemon import wait_until
from tests.support.driver import Stage
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

ALLOWED = {"allow": ["Bash", "PowerShell"]}


def test_of_a_long_output_both_ends_are_shown_and_all_of_it_is_kept(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, "seq 1 100000; echo 'error: no oats'; exit 2")
    ended(talk, task)
    look = message(calls("TaskOutput", {"task_id": task["id"]}))
    stage.api.script(talk.name, DONE, DONE, look, otherwise=DONE)
    talk.turn()
    shown = talk.result_texts()[-1]
    assert shown.startswith("<persisted-output>\nOutput too large")
    assert f"{task['id']} failed (exit code 2): seq 1 100000" in shown
    assert shown.endswith("100000\nerror: no oats\n</persisted-output>")
    assert len(shown) < 3000
    kept = re.search(r"result://(\w+)", shown)
    assert kept is not None
    (line,) = stage.daemon.call("result/search", result_id=kept[1], pattern="^54321$")["lines"]
    assert line["text"] == "54321"


# While it runs, and when it is stopped.


def test_progress_is_told_and_not_stored(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = f"echo one; echo two; {until(Path('go'))}"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    event = talk.wait("tool.progress")
    assert event["cursor"] is None
    told = event["data"]
    assert (told["call_id"], told["kind"]) == (call["call_id"], "shell")
    assert told["elapsed_ms"] >= 2000
    assert told["data"] == {"output": "one\ntwo\n", "lines": 2}
    (talk.folder / "go").touch()
    talk.ended(turn_id)


def test_an_interrupt_gives_what_was_printed_so_far(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "echo half of it; touch ready; sleep 1000"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})))
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    [text] = talk.result_texts()
    assert text.startswith("<tool_use_error>Interrupted by the person before it was finished.")
    # The shell may say of its child that it was terminated.
    assert "\nIt had printed:\nhalf of it" in text
    output = talk.all("tool.completed")[0]["call"]["output"]
    assert output["stdout"].startswith("half of it\n")
    assert (output["interrupted"], output["exit_code"], output["timed_out"]) == (True, None, False)


def test_what_was_printed_before_an_interrupt_is_shown_as_at_an_end(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'; seq 1 20000; touch ready; sleep 1000"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})))
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    [text] = talk.result_texts()
    # As long as it is, its beginning and its end are shown, and all of it is kept.
    assert "It had printed:\nred\n100%\n1\n2\n3\n" in text
    assert "\n19999\n20000" in text
    call = talk.all("tool.completed")[0]["call"]
    whole = stage.daemon.call("result/read", result_id=call["result_id"], limit_chars=200_000)["content"]
    lines = whole.removesuffix("</tool_use_error>").splitlines()
    assert lines[-20_000:] == [str(number) for number in range(1, 20_001)]


def test_a_command_in_front_prints_to_a_file_from_its_start(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = f"echo half of it; touch ready; {until(Path('go'))}"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    call = talk.wait("tool.started")["data"]["call"]
    wait_until((talk.folder / "ready").exists)
    [path] = (stage.daemon.home / "tasks").glob(f"call-{call['call_id']}-*.out")
    assert path.read_text() == "half of it\n"
    assert path.stat().st_mode & 0o777 == 0o600
    (talk.folder / "go").touch()
    talk.ended(turn_id)
    wait_until(lambda: not path.exists())
