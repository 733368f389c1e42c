"""Commands in the foreground: progress, what an interrupt shows of their output, and the file they print to."""

import re
from pathlib import Path

from tests.support.background_commands import (
    SHELLS_ALLOWED,
    build_wait_command,
    open_session_with_tasks,
    wait_for_task_end,
)
from tests.support.daemon import wait_until
from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def test_of_a_long_output_both_ends_are_shown_and_all_of_it_is_kept(harness: Harness) -> None:
    driver, (task,) = open_session_with_tasks(harness, "seq 1 100000; echo 'error: no oats'; exit 2")
    wait_for_task_end(driver, task)
    look = message(calls("TaskOutput", {"task_id": task["id"]}))
    harness.api.script(driver.name, DONE, DONE, look, otherwise=DONE)
    driver.run_turn()
    shown = driver.fetch_result_texts()[-1]
    assert shown.startswith("<persisted-output>\nOutput too large")
    assert f"{task['id']} failed (exit code 2): seq 1 100000" in shown
    assert shown.endswith("100000\nerror: no oats\n</persisted-output>")
    assert len(shown) < 3000
    kept = re.search(r"result://(\w+)", shown)
    assert kept is not None
    (line,) = harness.daemon.call("result/search", result_id=kept[1], pattern="^54321$")["lines"]
    assert line["text"] == "54321"


# While it runs, and when it is stopped.


def test_progress_is_told_and_not_stored(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    command = f"echo one; echo two; {build_wait_command(Path('go'))}"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    call = driver.wait("tool.started")["data"]["call"]
    event = driver.wait("tool.progress")
    assert event["cursor"] is None
    told = event["data"]
    assert (told["call_id"], told["kind"]) == (call["call_id"], "shell")
    assert told["elapsed_ms"] >= 2000
    assert told["data"] == {"output": "one\ntwo\n", "offset": 0, "lines": 2}
    (driver.folder / "go").touch()
    driver.wait_for_turn_end(turn_id)


def test_who_comes_later_joins_what_a_command_has_printed_with_what_it_still_prints(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    wait, wait_again = build_wait_command(Path("go")), build_wait_command(Path("end"))
    command = f"echo größer; {wait}; seq 1 30000; echo grün; {wait_again}; echo last"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    driver.wait("tool.progress")
    early = harness.daemon.call("session/get", session_id=driver.id)
    [call] = early["calls"]
    assert (call["tool"], call["status"], call["output"], call["output_offset"]) == ("Bash", "running", "größer\n", 0)
    assert call["elapsed_ms"] >= 2000
    (driver.folder / "go").touch()
    printed = "größer\n" + "".join(f"{number}\n" for number in range(1, 30_001)) + "grün\n"
    while "grün" not in driver.wait("tool.progress")["data"]["data"]["output"]:
        pass
    # Of very much the last 64 KB are kept, and the offset says how much there was before them.
    late = harness.daemon.call("session/get", session_id=driver.id)
    [call] = late["calls"]
    assert call["output"] == printed[call["output_offset"] :]
    assert 60_000 < len(call["output"]) <= 65_536
    # Nothing of it is stored: a stream that begins later starts with the same, so that there is no gap in between.
    for cursor in (early["cursor"], late["cursor"]):
        with harness.daemon.follow(f"?session={driver.id}&after={cursor}") as stream:
            told = next(event["data"] for event in stream.read_events() if event["type"] == "tool.progress")
        assert (told["call_id"], told["kind"], told["data"]["lines"]) == (call["call_id"], "shell", 30_002)
        assert (told["data"]["output"], told["data"]["offset"]) == (call["output"], call["output_offset"])
    (driver.folder / "end").touch()
    driver.wait_for_turn_end(turn_id)
    assert harness.daemon.call("session/get", session_id=driver.id)["calls"] == []


def test_an_interrupt_gives_what_was_printed_so_far(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    command = "echo half of it; touch ready; sleep 1000"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})))
    turn_id = driver.start()
    wait_until((driver.folder / "ready").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    [text] = driver.fetch_result_texts()
    assert text.startswith("<tool_use_error>Interrupted by the person before it was finished.")
    # The shell may say of its child that it was terminated.
    assert "\nIt had printed:\nhalf of it" in text
    output = driver.list_event_data("tool.completed")[0]["call"]["output"]
    assert output["stdout"].startswith("half of it\n")
    assert (output["interrupted"], output["exit_code"], output["timed_out"]) == (True, None, False)


def test_what_was_printed_before_an_interrupt_is_shown_as_at_an_end(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    command = "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'; seq 1 20000; touch ready; sleep 1000"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})))
    turn_id = driver.start()
    wait_until((driver.folder / "ready").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    [text] = driver.fetch_result_texts()
    # As long as it is, its beginning and its end are shown, and all of it is kept.
    assert "It had printed:\nred\n100%\n1\n2\n3\n" in text
    assert "\n19999\n20000" in text
    call = driver.list_event_data("tool.completed")[0]["call"]
    whole = harness.daemon.call("result/read", result_id=call["result_id"], limit_chars=200_000)["content"]
    lines = whole.removesuffix("</tool_use_error>").splitlines()
    assert lines[-20_000:] == [str(number) for number in range(1, 20_001)]


def test_a_command_in_front_prints_to_a_file_from_its_start(harness: Harness) -> None:
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    command = f"echo half of it; touch ready; {build_wait_command(Path('go'))}"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    call = driver.wait("tool.started")["data"]["call"]
    wait_until((driver.folder / "ready").exists)
    [path] = (harness.daemon.home / "tasks").glob(f"call-{call['call_id']}-*.out")
    # What it prints goes through a pipe, and is in the file a moment later.
    wait_until(lambda: path.read_text() == "half of it\n")
    assert path.stat().st_mode & 0o777 == 0o600
    (driver.folder / "go").touch()
    driver.wait_for_turn_end(turn_id)
    wait_until(lambda: not path.exists())
