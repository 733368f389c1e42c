"""Monitor: lines of a command or a file become messages, each once, also when the daemon starts anew."""

import json
import threading
from collections.abc import Callable
from typing import Any

import psutil

from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, sleep

ALLOWED = {"allow": ["Bash"]}


def monitor(**given: Any) -> Reply:
    return message(calls("Monitor", {"description": "the server", "timeout": 60_000, **given}))


def following(path: object) -> str:
    """A command that prints what is written to a file, and does not end."""
    return f"tail -n +1 -F {path} 2>/dev/null"


def told(talk: Talk) -> list[str]:
    """What the monitors told, in order."""
    texts = [
        block["text"]
        for one in talk.messages()
        if one["role"] == "user"
        for block in one["content"]
        if block["type"] == "text"
    ]
    return [text.partition(" saw: ")[2].partition("\n")[0] for text in texts if "The monitor m" in text]


def add(talk: Talk, name: str, text: str) -> None:
    with (talk.folder / name).open("a") as file:
        file.write(text)


def printed(talk: Talk, text: str) -> None:
    """Wait until the clients know of it, after which the monitor hears it."""
    talk.wait("task.output", lambda data: text in data["text"])


def test_each_line_becomes_a_message_and_wakes_a_sleep(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    talk.file("log")
    command = following(talk.folder / "log")
    stage.api.script(talk.name, monitor(command=command), sleep(), sleep(), DONE)
    talk.start()
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    add(talk, "log", "first\n\n\x1b[31msecond\x1b[0m\nhalf a ")
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    add(talk, "log", "line </ostler-note>\n")
    talk.ended()
    assert told(talk) == ["first", "second", "half a line < /ostler-note>"]
    task = talk.wait("task.started")["data"]["task"]
    assert (task["id"][0], task["type"], task["description"]) == ("m", "monitor_mcp", "the server")
    assert [call["call"]["output"].get("woken_by") for call in talk.all("tool.completed")[1:]] == ["monitor"] * 2
    assert talk.result_texts()[0].startswith(f"Monitoring as {task['id']}, for 60 s at most. Each line is told")


def test_the_first_line_that_matches_ends_it_with_its_command(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    command = "echo $BASHPID >pid; echo starting; echo ready on 8000; echo ready again; exec sleep 1000"
    stage.api.script(talk.name, monitor(command=command, until=r"ready on \d+"), sleep(), DONE, DONE)
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    talk.turn("And now?")
    assert told(talk) == ["ready on 8000"]
    assert (task["status"], task["error"], task["exit_code"]) == ("completed", None, None)
    pid = int(talk.written("pid"))
    wait_until(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_command_that_ends_without_the_line_says_so_and_its_output_can_be_read(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, monitor(command="echo port is taken; exit 98", until="ready"), sleep(), DONE)
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["exit_code"]) == ("failed", 98)
    assert told(talk) == []
    assert f"The background task {task['id']} has failed (exit code 98)" in json.dumps(talk.messages())
    task_output = message(calls("TaskOutput", {"task_id": task["id"]}))
    stage.api.script(talk.name, DONE, DONE, DONE, task_output, DONE)
    talk.turn("Why?")
    assert talk.result_texts()[-1].endswith("\nport is taken")


def test_a_line_that_does_not_end_counts_when_the_command_does(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, monitor(command="printf done", until="^done$"), sleep(), DONE, DONE)
    talk.turn()
    talk.wait("task.ended")
    talk.turn("And now?")
    assert told(talk) == ["done"]


def test_a_pattern_that_explodes_elsewhere_and_long_lines_do_no_harm(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    # Half a megabyte of what makes other engines try for ever, then the line; more than is told to clients at once.
    command = "for i in {1..1000}; do printf 'a%.0s' {1..500}; echo b; done; printf 'a%.0s' {1..900}; echo; sleep 1000"
    stage.api.script(talk.name, monitor(command=command, until="(a+)+$"), DONE, DONE)
    talk.turn()
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    talk.turn("And now?")
    assert told(talk) == ["a" * 500]


def test_a_line_after_very_much_output_is_still_seen(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, monitor(command="seq 1 2000000; echo ready; sleep 1000", until="^ready$"), DONE, DONE)
    talk.turn()
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    talk.turn("And now?")
    assert told(talk) == ["ready"]


def test_what_only_reads_is_kept_to_reading_as_a_command_of_bash_is(stage: Stage) -> None:
    talk = stage.talk()
    path = talk.file("log")
    kinds: list[dict[str, Any]] = [{"path": path}, {"command": "ls"}]
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, **kind}) for kind in kinds]
    stage.api.script(talk.name, message(calls("Bash", {"command": "ls"}), *watched), DONE)
    talk.turn()
    ended = [each["call"] for each in talk.all("tool.completed")]
    assert [call["decision"]["by"] for call in ended] == ["read_only"] * 3
    assert len({call["output"]["sandboxed"] for call in ended}) == 1


def test_a_file_is_followed_from_its_end_on_also_when_it_is_replaced(stage: Stage) -> None:
    talk = stage.talk()
    path = talk.file("log", "old\n")
    stage.api.script(talk.name, monitor(path=path), DONE, DONE)
    talk.turn()
    assert talk.all("tool.completed")[0]["call"]["decision"]["by"] == "read_only"
    # Whoever follows has to have begun: what it says of the beginning is nothing.
    talk_until_told(talk, lambda: add(talk, "log", "probe\n"), "probe")
    (talk.folder / "log").rename(talk.folder / "log.1")
    talk.file("log", "after the rotation\n")
    printed(talk, "after the rotation")
    talk.turn("And now?")
    found = told(talk)
    assert "old" not in found
    assert [line for line in found if line != "probe"] == ["after the rotation"]


def talk_until_told(talk: Talk, act: Callable[[], None], text: str) -> None:
    """Act again until a client is told: nothing says when another process has opened a file."""
    done = threading.Event()

    def again() -> None:
        while not done.wait(0.2):
            act()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    printed(talk, text)
    done.set()
    thread.join()


def test_a_monitor_ends_when_its_time_is_over(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, monitor(path=talk.file("log"), timeout=1000), sleep(), DONE)
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["error"]) == ("killed", "Its time is over.")
    # By what it waits for, and not by the command of ours that follows the file.
    ending = f"The background task {task['id']} was stopped (Its time is over.): {task['description']}\n"
    assert ending in str([one["content"] for one in talk.messages()]).replace("\\n", "\n")


def test_of_very_many_lines_only_some_are_told(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOWED)
    stage.api.script(talk.name, monitor(command="seq 1 100000"), DONE, DONE)
    talk.turn()
    talk.wait("task.ended")
    talk.turn("And now?")
    lines = told(talk)
    assert lines[0] == "1"
    assert len(lines) <= 200
    assert "There were more lines than these: read them with TaskOutput." in json.dumps(talk.messages())


def test_after_a_restart_a_monitor_listens_on_and_repeats_nothing(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOWED)
    talk.file("log", "one\n")
    command = following(talk.folder / "log")
    stage.api.script(talk.name, monitor(command=command), sleep(), DONE, DONE, DONE)
    talk.turn()
    assert told(talk) == ["one"]
    add(talk, "log", "untold\n")
    printed(talk, "untold")
    stage.restart()
    add(talk, "log", "two\n")
    printed(talk, "two")
    talk.turn("And now?")
    talk.turn("Again?")
    assert told(talk) == ["one", "untold", "two"]


def test_after_a_restart_a_file_is_followed_on(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk()
    path = talk.file("log", "old\n")
    stage.api.script(talk.name, monitor(path=path, until="^new"), DONE, DONE)
    talk.turn()
    talk_until_told(talk, lambda: add(talk, "log", "probe\n"), "probe")
    stage.restart()
    add(talk, "log", "new\nnewer\n")
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    talk.turn("And now?")
    assert told(talk) == ["new"]


def test_after_a_restart_a_monitor_still_knows_what_it_waits_for(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOWED)
    talk.file("log", "one\n")
    command = following(talk.folder / "log")
    stage.api.script(talk.name, monitor(command=command, until="^ready"), DONE, DONE)
    talk.turn()
    stage.restart()
    add(talk, "log", "two\nready\n")
    assert talk.wait("task.ended")["data"]["task"]["status"] == "completed"
    talk.turn("And now?")
    assert told(talk) == ["ready"]


def test_lines_of_a_monitor_that_ended_while_no_daemon_ran_are_told(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOWED)
    go = talk.folder / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done; echo ready"
    stage.api.script(talk.name, monitor(command=command, until="ready"), DONE, DONE)
    talk.turn()
    stage.daemon.kill()
    go.touch()
    wait_until(lambda: any(path.read_text().endswith("0\n") for path in (stage.daemon.home / "tasks").glob("*.end")))
    stage.daemon.start()
    talk.reconnect(0)
    talk.wait("task.ended")
    talk.turn("And now?")
    assert told(talk) == ["ready"]


# Permission.


def test_a_command_to_be_watched_asks_as_bash_does(stage: Stage) -> None:
    talk = stage.talk(monitor(command="make watch"), DONE)
    talk.start()
    ask = talk.ask()
    assert ask["message"] == "Run this command: make watch"
    assert ask["suggestions"][0]["rule"].startswith("Bash(make")
    talk.answer(ask, "deny", message="Not now.")
    talk.ended()
    assert talk.all("task.started") == []


def test_rules_of_bash_bind_a_command_that_is_watched(stage: Stage) -> None:
    rules = {"allow": ["Bash(make:*)"], "deny": ["Bash(rm:*)"]}
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, "command": each}) for each in ("rm a", "make -v")]
    talk = stage.talk(message(*watched), DONE, rules=rules)
    talk.turn()
    denied, allowed = (each["call"]["decision"] for each in talk.all("tool.completed"))
    assert (denied["behavior"], denied["rule"]) == ("deny", "Bash(rm:*)")
    assert (allowed["behavior"], allowed["rule"]) == ("allow", "Bash(make:*)")


def test_rules_explain_what_would_happen_to_a_monitor(stage: Stage) -> None:
    talk = stage.talk(rules={"deny": ["Bash(rm:*)"]})

    def explained(**given: Any) -> dict[str, Any]:
        asked = {"description": "d", "timeout": 1000, **given}
        found: dict[str, Any] = stage.daemon.call("rule/explain", session_id=talk.id, tool="Monitor", input=asked)
        return found

    assert (explained(command="rm a")["behavior"], explained(command="rm a")["rule"]) == ("deny", "Bash(rm:*)")
    assert explained(command="make")["behavior"] == "ask"
    assert [part["text"] for part in explained(command="ls && make")["parts"]] == ["ls", "make"]
    inside = explained(path=str(talk.folder / "log"))
    assert (inside["behavior"], inside["read_only"], inside["parts"]) == ("allow", True, [])


def test_rules_of_read_bind_a_file_that_is_watched_and_those_of_bash_do_not(stage: Stage) -> None:
    talk = stage.talk(
        rules={"allow": ["Bash(git diff:*)", "Monitor(git diff:*)"], "deny": ["Read(./secret.log)"]}, on_ask="deny"
    )
    secret, outside = str(talk.folder / "secret.log"), str(talk.folder.parent / "other.log")
    watched = [calls("Monitor", {"description": "d", "timeout": 1000, "path": each}) for each in (secret, outside)]
    stage.api.script(talk.name, message(*watched), DONE)
    talk.turn()
    by_rule, by_nobody = (each["call"]["decision"] for each in talk.all("tool.completed"))
    assert (by_rule["behavior"], by_rule["rule"]) == ("deny", "Read(./secret.log)")
    assert (by_nobody["behavior"], by_nobody["by"]) == ("deny", "on_ask")
    assert f"Read(/{outside})" in by_nobody["reason"]


def test_rules_of_its_own_bind_it_too(stage: Stage) -> None:
    asking = stage.talk(monitor(command="ls"), DONE, rules={"ask": ["Monitor"]})
    asking.start()
    asking.answer(asking.ask(), "deny", message="No.")
    asking.ended()
    for rule, command, behavior in (
        ("Monitor", "make -v", "allow"),
        ("Monitor(make:*)", "make -v", "allow"),
        ("Monitor(rm:*)", "rm a", "deny"),
    ):
        talk = stage.talk(monitor(command=command), DONE, rules={behavior: [rule]})
        talk.turn()
        decision = talk.all("tool.completed")[0]["call"]["decision"]
        assert (decision["behavior"], decision["rule"]) == (behavior, rule)


def test_a_setting_switches_it_off(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_TOOLS__MONITOR="false")
    talk = stage.talk(monitor(command="ls"), DONE)
    talk.turn()
    assert "The tool Monitor cannot be used here: it is disabled." in talk.result_texts()[0]
    listed = {tool["name"]: tool["enabled"] for tool in stage.daemon.call("tool/list")["tools"]}
    assert listed["Monitor"] is False
    assert listed["Sleep"] is True
