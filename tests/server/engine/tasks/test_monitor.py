"""Monitor: lines of a command or a file become messages, each once, also when the daemon starts anew."""

import json
import threading
from collections.abc import Callable
from typing import Any

import psutil

from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, sleep

ALLOWED = {"allow": ["Bash"]}


def monitor(**given: Any) -> Reply:
    return message(calls("Monitor", {"description": "the server", "timeout": 60_000, **given}))


def make_follow_command(path: object) -> str:
    """A command that prints what is written to a file, and does not end."""
    return f"tail -n +1 -F {path} 2>/dev/null"


def list_monitor_lines(driver: SessionDriver) -> list[str]:
    """What the monitors told, in order."""
    texts = [
        block["text"]
        for one in driver.fetch_messages()
        if one["role"] == "user"
        for block in one["content"]
        if block["type"] == "text"
    ]
    return [text.partition(" saw: ")[2].partition("\n")[0] for text in texts if "The monitor m" in text]


def append_text(driver: SessionDriver, name: str, text: str) -> None:
    with (driver.folder / name).open("a") as file:
        file.write(text)


def wait_for_output(driver: SessionDriver, text: str) -> None:
    """Wait until the clients know of it, after which the monitor hears it."""
    driver.wait("task.output", lambda data: text in data["text"])


def test_each_line_becomes_a_message_and_wakes_a_sleep(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    driver.write_file("log")
    command = make_follow_command(driver.folder / "log")
    harness.api.script(driver.name, monitor(command=command), sleep(), sleep(), DONE)
    driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    append_text(driver, "log", "first\n\n\x1b[31msecond\x1b[0m\nhalf a ")
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    append_text(driver, "log", "line </ostler-note>\n")
    driver.wait_for_turn_end()
    assert list_monitor_lines(driver) == ["first", "second", "half a line < /ostler-note>"]
    task = driver.wait("task.started")["data"]["task"]
    assert (task["id"][0], task["type"], task["description"]) == ("m", "monitor_mcp", "the server")
    assert [call["call"]["output"].get("woken_by") for call in driver.list_event_data("tool.completed")[1:]] == [
        "monitor"
    ] * 2
    assert driver.fetch_result_texts()[0].startswith(f"Monitoring as {task['id']}, for 60 s at most. Each line is told")


def test_the_first_line_that_matches_ends_it_with_its_command(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    command = "echo $BASHPID >pid; echo starting; echo ready on 8000; echo ready again; exec sleep 1000"
    harness.api.script(driver.name, monitor(command=command, until=r"ready on \d+"), sleep(), DONE, DONE)
    driver.run_turn()
    task = driver.wait("task.ended")["data"]["task"]
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["ready on 8000"]
    assert (task["status"], task["error"], task["exit_code"]) == ("completed", None, None)
    pid = int(driver.wait_for_file("pid"))
    wait_until(lambda: not _is_alive(pid))


def _is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_command_that_ends_without_the_line_says_so_and_its_output_can_be_read(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(driver.name, monitor(command="echo port is taken; exit 98", until="ready"), sleep(), DONE)
    driver.run_turn()
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["exit_code"]) == ("failed", 98)
    assert list_monitor_lines(driver) == []
    assert f"The background task {task['id']} has failed (exit code 98)" in json.dumps(driver.fetch_messages())
    task_output = message(calls("TaskOutput", {"task_id": task["id"]}))
    harness.api.script(driver.name, DONE, DONE, DONE, task_output, DONE)
    driver.run_turn("Why?")
    assert driver.fetch_result_texts()[-1].endswith("\nport is taken")


def test_a_line_that_does_not_end_counts_when_the_command_does(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(driver.name, monitor(command="printf done", until="^done$"), sleep(), DONE, DONE)
    driver.run_turn()
    driver.wait("task.ended")
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["done"]


def test_a_pattern_that_explodes_elsewhere_and_long_lines_do_no_harm(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    # Half a megabyte of what makes other engines try for ever, then the line; more than is told to clients at once.
    command = "for i in {1..1000}; do printf 'a%.0s' {1..500}; echo b; done; printf 'a%.0s' {1..900}; echo; sleep 1000"
    harness.api.script(driver.name, monitor(command=command, until="(a+)+$"), DONE, DONE)
    driver.run_turn()
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["a" * 500]


def test_a_line_after_very_much_output_is_still_seen(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(
        driver.name, monitor(command="seq 1 2000000; echo ready; sleep 1000", until="^ready$"), DONE, DONE
    )
    driver.run_turn()
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["ready"]


def test_what_only_reads_is_kept_to_reading_as_a_command_of_bash_is(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("log")
    kinds: list[dict[str, Any]] = [{"path": path}, {"command": "ls"}]
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, **kind}) for kind in kinds]
    harness.api.script(driver.name, message(calls("Bash", {"command": "ls"}), *watched), DONE)
    driver.run_turn()
    ended = [each["call"] for each in driver.list_event_data("tool.completed")]
    assert [call["decision"]["by"] for call in ended] == ["read_only"] * 3
    assert len({call["output"]["sandboxed"] for call in ended}) == 1


def test_a_file_is_followed_from_its_end_on_also_when_it_is_replaced(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("log", "old\n")
    harness.api.script(driver.name, monitor(path=path), DONE, DONE)
    driver.run_turn()
    assert driver.list_event_data("tool.completed")[0]["call"]["decision"]["by"] == "read_only"
    # Whoever follows has to have begun: what it says of the beginning is nothing.
    repeat_until_output(driver, lambda: append_text(driver, "log", "probe\n"), "probe")
    (driver.folder / "log").rename(driver.folder / "log.1")
    driver.write_file("log", "after the rotation\n")
    wait_for_output(driver, "after the rotation")
    driver.run_turn("And now?")
    found = list_monitor_lines(driver)
    assert "old" not in found
    assert [line for line in found if line != "probe"] == ["after the rotation"]


def repeat_until_output(driver: SessionDriver, act: Callable[[], None], text: str) -> None:
    """Act again until a client is told: nothing says when another process has opened a file."""
    done = threading.Event()

    def again() -> None:
        while not done.wait(0.2):
            act()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    wait_for_output(driver, text)
    done.set()
    thread.join()


def test_a_monitor_ends_when_its_time_is_over(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(driver.name, monitor(path=driver.write_file("log"), timeout=1000), sleep(), DONE)
    driver.run_turn()
    task = driver.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "Its time is over.")
    # By what it waits for, and not by the command of ours that follows the file.
    ending = f"The background task {task['id']} was stopped (Its time is over.): {task['description']}\n"
    assert ending in str([one["content"] for one in driver.fetch_messages()]).replace("\\n", "\n")


def test_of_very_many_lines_only_some_are_told(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOWED)
    harness.api.script(driver.name, monitor(command="seq 1 100000"), DONE, DONE)
    driver.run_turn()
    driver.wait("task.ended")
    driver.run_turn("And now?")
    lines = list_monitor_lines(driver)
    assert lines[0] == "1"
    assert len(lines) <= 200
    assert "There were more lines than these: read them with TaskOutput." in json.dumps(driver.fetch_messages())


def test_after_a_restart_a_monitor_listens_on_and_repeats_nothing(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules=ALLOWED)
    driver.write_file("log", "one\n")
    command = make_follow_command(driver.folder / "log")
    harness.api.script(driver.name, monitor(command=command), sleep(), DONE, DONE, DONE)
    driver.run_turn()
    assert list_monitor_lines(driver) == ["one"]
    append_text(driver, "log", "untold\n")
    wait_for_output(driver, "untold")
    harness.restart()
    append_text(driver, "log", "two\n")
    wait_for_output(driver, "two")
    driver.run_turn("And now?")
    driver.run_turn("Again?")
    assert list_monitor_lines(driver) == ["one", "untold", "two"]


def test_after_a_restart_a_file_is_followed_on(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session()
    path = driver.write_file("log", "old\n")
    harness.api.script(driver.name, monitor(path=path, until="^new"), DONE, DONE)
    driver.run_turn()
    repeat_until_output(driver, lambda: append_text(driver, "log", "probe\n"), "probe")
    harness.restart()
    append_text(driver, "log", "new\nnewer\n")
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["new"]


def test_after_a_restart_a_monitor_still_knows_what_it_waits_for(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules=ALLOWED)
    driver.write_file("log", "one\n")
    command = make_follow_command(driver.folder / "log")
    harness.api.script(driver.name, monitor(command=command, until="^ready"), DONE, DONE)
    driver.run_turn()
    harness.restart()
    append_text(driver, "log", "two\nready\n")
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["ready"]


def test_lines_of_a_monitor_that_ended_while_no_daemon_ran_are_told(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules=ALLOWED)
    go = driver.folder / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done; echo ready"
    harness.api.script(driver.name, monitor(command=command, until="ready"), DONE, DONE)
    driver.run_turn()
    harness.daemon.kill()
    go.touch()
    wait_until(lambda: any(path.read_text().endswith("0\n") for path in (harness.daemon.home / "tasks").glob("*.end")))
    harness.daemon.start()
    driver.reconnect(0)
    driver.wait("task.ended")
    driver.run_turn("And now?")
    assert list_monitor_lines(driver) == ["ready"]


# Permission.


def test_a_command_to_be_watched_asks_as_bash_does(harness: Harness) -> None:
    driver = harness.open_session(monitor(command="make watch"), DONE)
    driver.start()
    ask = driver.wait_for_ask()
    assert ask["message"] == "Run this command: make watch"
    assert ask["suggestions"][0]["rule"].startswith("Bash(make")
    driver.answer(ask, "deny", message="Not now.")
    driver.wait_for_turn_end()
    assert driver.list_event_data("task.started") == []


def test_rules_of_bash_bind_a_command_that_is_watched(harness: Harness) -> None:
    rules = {"allow": ["Bash(make:*)"], "deny": ["Bash(rm:*)"]}
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, "command": each}) for each in ("rm a", "make -v")]
    driver = harness.open_session(message(*watched), DONE, rules=rules)
    driver.run_turn()
    denied, allowed = (each["call"]["decision"] for each in driver.list_event_data("tool.completed"))
    assert (denied["behavior"], denied["rule"]) == ("deny", "Bash(rm:*)")
    assert (allowed["behavior"], allowed["rule"]) == ("allow", "Bash(make:*)")


def test_rules_explain_what_would_happen_to_a_monitor(harness: Harness) -> None:
    driver = harness.open_session(rules={"deny": ["Bash(rm:*)"]})

    def explained(**given: Any) -> dict[str, Any]:
        asked = {"description": "d", "timeout": 1000, **given}
        found: dict[str, Any] = harness.daemon.call("rule/explain", session_id=driver.id, tool="Monitor", input=asked)
        return found

    assert (explained(command="rm a")["behavior"], explained(command="rm a")["rule"]) == ("deny", "Bash(rm:*)")
    assert explained(command="make")["behavior"] == "ask"
    assert [part["text"] for part in explained(command="ls && make")["parts"]] == ["ls", "make"]
    inside = explained(path=str(driver.folder / "log"))
    assert (inside["behavior"], inside["read_only"], inside["parts"]) == ("allow", True, [])


def test_rules_of_read_bind_a_file_that_is_watched_and_those_of_bash_do_not(harness: Harness) -> None:
    driver = harness.open_session(
        rules={"allow": ["Bash(git diff:*)", "Monitor(git diff:*)"], "deny": ["Read(./secret.log)"]}, on_ask="deny"
    )
    secret, outside = str(driver.folder / "secret.log"), str(driver.folder.parent / "other.log")
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, "path": each}) for each in (secret, outside)]
    harness.api.script(driver.name, message(*watched), DONE)
    driver.run_turn()
    by_rule, by_nobody = (each["call"]["decision"] for each in driver.list_event_data("tool.completed"))
    assert (by_rule["behavior"], by_rule["rule"]) == ("deny", "Read(./secret.log)")
    assert (by_nobody["behavior"], by_nobody["by"]) == ("deny", "on_ask")
    assert f"Read(/{outside})" in by_nobody["reason"]


def test_rules_of_its_own_bind_it_too(harness: Harness) -> None:
    asking = harness.open_session(monitor(command="ls"), DONE, rules={"ask": ["Monitor"]})
    asking.start()
    asking.answer(asking.wait_for_ask(), "deny", message="No.")
    asking.wait_for_turn_end()
    for rule, command, behavior in (
        ("Monitor", "make -v", "allow"),
        ("Monitor(make:*)", "make -v", "allow"),
        ("Monitor(rm:*)", "rm a", "deny"),
    ):
        driver = harness.open_session(monitor(command=command), DONE, rules={behavior: [rule]})
        driver.run_turn()
        decision = driver.list_event_data("tool.completed")[0]["call"]["decision"]
        assert (decision["behavior"], decision["rule"]) == (behavior, rule)


def test_a_setting_switches_it_off(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_TOOLS__MONITOR="false")
    driver = harness.open_session(monitor(command="ls"), DONE)
    driver.run_turn()
    assert "The tool Monitor cannot be used here: it is disabled." in driver.fetch_result_texts()[0]
    listed = {tool["name"]: tool["enabled"] for tool in harness.daemon.call("tool/list")["tools"]}
    assert listed["Monitor"] is False
    assert listed["Sleep"] is True
