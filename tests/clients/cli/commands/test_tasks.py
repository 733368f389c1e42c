"""`ostler tasks`, and tasks in `chat` and `attach`, on a real daemon."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cli.chat.typing_person import Talk
from tests.clients.cli.commands.test_completion import offered
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.server import ScriptedApi

ENDLESS = "true; sleep 1000"


@pytest.fixture
def working(home: Path, api: ScriptedApi) -> Iterator[Daemon]:
    with Daemon(home, environment=api.environment) as daemon:
        yield daemon


@pytest.fixture
def person(working: Daemon) -> Cli:
    return Cli(working.home)


def behind(daemon: Daemon, api: ScriptedApi, folder: Path, *commands: str) -> list[dict[str, Any]]:
    """The tasks of a new session."""
    starting = message(*(calls("Bash", {"command": each, "run_in_background": True}) for each in commands))
    api.script("work", starting, otherwise=message(says("They run.")))
    created = daemon.call("session/create", cwd=str(folder), rules={"allow": ["Bash"]})
    daemon.call("run", session_id=created["id"], input="[work] begin")
    tasks: list[dict[str, Any]] = daemon.call("task/list", session_id=created["id"])["tasks"]
    return tasks


def test_what_runs_is_listed_and_what_is_over_only_when_asked_for(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    assert (person.run("tasks").code, person.run("tasks").err) == (0, "Nothing runs in the background.\n")
    first, second = behind(working, api, project, ENDLESS, "echo hello; exit 3")
    working.call("task/wait", task_id=second["id"])
    (line,) = person.run("tasks").out.splitlines()
    assert line.split("\t") == [first["id"], "running", first["started_at"], "0 B", first["session_id"], ENDLESS]
    listed = person.run("tasks", "list", "--all").out.splitlines()
    assert [each.split("\t")[:2] for each in listed] == [[first["id"], "running"], [second["id"], "failed (3)"]]
    found = person.run("tasks", "--all", "--format", "json", "--session", first["session_id"]).json
    assert [task["id"] for task in found["tasks"]] == [first["id"], second["id"]]
    assert found["next"] is None
    assert "There is no session 's_none'" in person.run("tasks", "--session", "s_none").err


def test_a_shell_is_offered_tasks_what_runs_first(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    over, running = behind(working, api, project, "true", ENDLESS)
    working.call("task/wait", task_id=over["id"])
    assert offered(person, "ostler", "tasks", "stop", "") == [running["id"], over["id"]]
    assert offered(person, "ostler", "tasks", "wait", over["id"][:-2]) == [over["id"]]


def test_on_a_terminal_it_says_what_can_be_done_with_a_task(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = behind(working, api, project, ENDLESS)
    shown = person.in_terminal("tasks").out
    assert task["id"] in shown
    assert "`ostler tasks stop ID`" in shown


def test_show_prints_what_there_is_and_follows_to_the_end(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = behind(working, api, project, "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 4")
    wait_until(lambda: working.call("task/get", task_id=task["id"])["output_bytes"] == 4)
    shown = person.run("tasks", "show", task["id"])
    assert (shown.code, shown.out, shown.err) == (0, "one\n", f"{task['id']} running\n")
    following = person.spawn("tasks", "show", "--follow", task["id"])
    assert following.stdout is not None
    assert following.stdout.readline() == "one\n"
    (project / "go").touch()
    out, err = following.communicate(timeout=30)
    assert (following.returncode, out, err) == (0, "two\n", f"{task['id']} failed (4)\n")
    found = person.run("tasks", "show", task["id"], "--format", "json").json
    assert (found["output"], found["task"]["exit_code"]) == ("one\ntwo\n", 4)


def test_a_task_is_followed_across_a_restart_of_the_daemon(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = behind(working, api, project, "echo one; until [ -e go ]; do sleep 0.05; done; echo two")
    following = person.spawn("tasks", "show", "-f", task["id"])
    assert following.stdout is not None
    assert following.stdout.readline() == "one\n"
    assert working.stop() == 0
    working.start()
    (project / "go").touch()
    out, err = following.communicate(timeout=30)
    assert (following.returncode, out, err) == (0, "two\n", f"{task['id']} completed\n")


def test_a_terminal_is_not_steered_by_what_a_task_printed(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = behind(working, api, project, r"printf '\033]0;title\007end'")
    working.call("task/wait", task_id=task["id"])
    assert "\\x1b]0;title\\x07end" in person.in_terminal("tasks", "show", task["id"]).out
    assert person.run("tasks", "show", task["id"]).out == "\x1b]0;title\x07end"


def test_stop_ends_tasks_and_a_wrong_id_stops_none(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    first, second = behind(working, api, project, ENDLESS, ENDLESS)
    wrong = person.run("tasks", "stop", first["id"], "b00000000")
    assert (wrong.code, wrong.err) == (
        1,
        "ostler: There is no task 'b00000000'. `ostler tasks --all` lists what there is.\n",
    )
    assert working.call("task/get", task_id=first["id"])["status"] == "running"
    ran = person.run("tasks", "stop", first["id"], second["id"])
    assert (ran.code, ran.out) == (0, f"{first['id']} killed\n{second['id']} killed\n")


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("kill -KILL $BASHPID", 137)])
def test_the_exit_code_of_wait_is_the_commands_own(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path, command: str, code: int
) -> None:
    (task,) = behind(working, api, project, command)
    assert person.run("tasks", "wait", task["id"]).code == code


def test_wait_tells_a_stopped_task_and_a_time_that_is_over_apart(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = behind(working, api, project, ENDLESS)
    waited = person.run("tasks", "wait", task["id"], "--timeout", "0.1")
    assert (waited.code, waited.err) == (124, f"{task['id']} running\n")
    working.call("task/stop", task_id=task["id"])
    waited = person.run("tasks", "wait", task["id"], "--format", "json")
    assert (waited.code, waited.json["status"]) == (143, "killed")


# In a chat.


@pytest.mark.parametrize("way", ["/background\r", "\x02"])
def test_a_command_that_takes_long_is_sent_to_the_background(
    person: Cli, api: ScriptedApi, project: Path, way: str
) -> None:
    command = "echo begun >here; until [ -e go ]; do sleep 0.05; done"
    api.script("slow", message(calls("Bash", {"command": command})), otherwise=message(says("On we go.")))
    with Talk(person, "chat", "--mode", "default", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("[slow] do it\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("y")
        wait_until((project / "here").exists)
        talk.type(way)
        talk.until("goes on in the background: ")
        talk.until("On we go.")
        (project / "go").touch()
        talk.until("is done: ")
        talk.type("/background\r")
        talk.until("No command runs.")
        talk.type("\x04")
        assert talk.wait() == 0


def test_who_attaches_later_can_send_it_to_the_background_and_stop_it(
    person: Cli, working: Daemon, api: ScriptedApi, project: Path
) -> None:
    command = f"echo begun >here; {ENDLESS}"
    api.script("slow", message(calls("Bash", {"command": command})), otherwise=message(says("On we go.")))
    session = working.call("session/create", cwd=str(project), rules={"allow": ["Bash"]})
    working.call("turn/start", session_id=session["id"], input="[slow] do it")
    wait_until((project / "here").exists)
    with Talk(person, "attach", session["id"]) as talk:
        talk.say("/background")
        talk.until("goes on in the background: ")
        talk.until("On we go.")
        (task,) = working.call("task/list", session_id=session["id"])["tasks"]
        talk.say("/tasks")
        talk.until(f"{task['id']}  echo begun")
        talk.say("/stop")
        talk.until("Which one?")
        talk.say(f"/stop {task['id']}")
        talk.until(f"{task['id']} was stopped")
        talk.say("/tasks")
        talk.until("Nothing runs in the background.")
        talk.end_of_input()
        assert talk.wait() == 0
