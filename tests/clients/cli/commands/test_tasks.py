"""`ostler tasks`, and tasks in `chat` and `attach`, on a real daemon."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cli.chat.chat_driver import ChatDriver
from tests.clients.cli.commands.installation.test_completion import complete_words
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.server import ScriptedApi

ENDLESS = "set +e; sleep 1000"
"""More than reading, so that what comes after it starts after it."""


@pytest.fixture
def api_daemon(home: Path, api: ScriptedApi) -> Iterator[Daemon]:
    with Daemon(home, environment=api.environment) as daemon:
        yield daemon


@pytest.fixture
def api_cli(api_daemon: Daemon) -> Cli:
    return Cli(api_daemon.home)


def start_tasks(daemon: Daemon, api: ScriptedApi, folder: Path, *commands: str) -> list[dict[str, Any]]:
    """The tasks of a new session."""
    starting = message(*(calls("Bash", {"command": each, "run_in_background": True}) for each in commands))
    api.script("work", starting, otherwise=message(says("They run.")))
    created = daemon.call("session/create", cwd=str(folder), rules={"allow": ["Bash"]})
    daemon.call("run", session_id=created["id"], input="[work] begin")
    tasks: list[dict[str, Any]] = daemon.call("task/list", session_id=created["id"])["tasks"]
    return tasks


def test_what_runs_is_listed_and_what_is_over_only_when_asked_for(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    assert (api_cli.run("tasks").code, api_cli.run("tasks").err) == (0, "Nothing runs in the background.\n")
    first, second = start_tasks(api_daemon, api, project, ENDLESS, "echo hello; exit 3")
    api_daemon.call("task/wait", task_id=second["id"])
    (line,) = api_cli.run("tasks").out.splitlines()
    assert line.split("\t") == [first["id"], "running", first["started_at"], "0 B", first["session_id"], ENDLESS]
    listed = api_cli.run("tasks", "list", "--all").out.splitlines()
    assert [each.split("\t")[:2] for each in listed] == [[first["id"], "running"], [second["id"], "failed (3)"]]
    found = api_cli.run("tasks", "--all", "--format", "json", "--session", first["session_id"]).json
    assert [task["id"] for task in found["tasks"]] == [first["id"], second["id"]]
    assert found["next"] is None
    assert "There is no session 's_none'" in api_cli.run("tasks", "--session", "s_none").err


def test_a_shell_is_offered_tasks_what_runs_first(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    over, running = start_tasks(api_daemon, api, project, "true", ENDLESS)
    api_daemon.call("task/wait", task_id=over["id"])
    assert complete_words(api_cli, "ostler", "tasks", "stop", "") == [running["id"], over["id"]]
    assert complete_words(api_cli, "ostler", "tasks", "wait", over["id"][:-2]) == [over["id"]]


def test_on_a_terminal_it_says_what_can_be_done_with_a_task(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = start_tasks(api_daemon, api, project, ENDLESS)
    shown = api_cli.run_in_terminal("tasks").out
    assert task["id"] in shown
    assert "`ostler tasks stop ID`" in shown


def test_show_prints_what_there_is_and_follows_to_the_end(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = start_tasks(api_daemon, api, project, "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 4")
    wait_until(lambda: api_daemon.call("task/get", task_id=task["id"])["output_bytes"] == 4)
    shown = api_cli.run("tasks", "show", task["id"])
    assert (shown.code, shown.out, shown.err) == (0, "one\n", f"{task['id']} running\n")
    following = api_cli.spawn("tasks", "show", "--follow", task["id"])
    assert following.stdout is not None
    assert following.stdout.readline() == "one\n"
    (project / "go").touch()
    out, err = following.communicate(timeout=30)
    assert (following.returncode, out, err) == (0, "two\n", f"{task['id']} failed (4)\n")
    found = api_cli.run("tasks", "show", task["id"], "--format", "json").json
    assert (found["output"], found["task"]["exit_code"]) == ("one\ntwo\n", 4)


def test_a_task_is_followed_across_a_restart_of_the_daemon(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = start_tasks(api_daemon, api, project, "echo one; until [ -e go ]; do sleep 0.05; done; echo two")
    following = api_cli.spawn("tasks", "show", "-f", task["id"])
    assert following.stdout is not None
    assert following.stdout.readline() == "one\n"
    assert api_daemon.stop() == 0
    api_daemon.start()
    (project / "go").touch()
    out, err = following.communicate(timeout=30)
    assert (following.returncode, out, err) == (0, "two\n", f"{task['id']} completed\n")


def test_a_terminal_is_not_steered_by_what_a_task_printed(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = start_tasks(api_daemon, api, project, r"printf '\033]0;title\007end'")
    api_daemon.call("task/wait", task_id=task["id"])
    assert "\\x1b]0;title\\x07end" in api_cli.run_in_terminal("tasks", "show", task["id"]).out
    assert api_cli.run("tasks", "show", task["id"]).out == "\x1b]0;title\x07end"


def test_stop_ends_tasks_and_a_wrong_id_stops_none(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    first, second = start_tasks(api_daemon, api, project, ENDLESS, ENDLESS)
    wrong = api_cli.run("tasks", "stop", first["id"], "b00000000")
    assert (wrong.code, wrong.err) == (
        1,
        "ostler: There is no task 'b00000000'. `ostler tasks --all` lists what there is.\n",
    )
    assert api_daemon.call("task/get", task_id=first["id"])["status"] == "running"
    ran = api_cli.run("tasks", "stop", first["id"], second["id"])
    assert (ran.code, ran.out) == (0, f"{first['id']} killed\n{second['id']} killed\n")


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("kill -KILL $BASHPID", 137)])
def test_the_exit_code_of_wait_is_the_commands_own(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path, command: str, code: int
) -> None:
    (task,) = start_tasks(api_daemon, api, project, command)
    assert api_cli.run("tasks", "wait", task["id"]).code == code


def test_wait_tells_a_stopped_task_and_a_time_that_is_over_apart(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    (task,) = start_tasks(api_daemon, api, project, ENDLESS)
    waited = api_cli.run("tasks", "wait", task["id"], "--timeout", "0.1")
    assert (waited.code, waited.err) == (124, f"{task['id']} running\n")
    api_daemon.call("task/stop", task_id=task["id"])
    waited = api_cli.run("tasks", "wait", task["id"], "--format", "json")
    assert (waited.code, waited.json["status"]) == (143, "killed")


# In a chat.


@pytest.mark.parametrize("way", ["/background\r", "\x02"])
def test_a_command_that_takes_long_is_sent_to_the_background(
    api_cli: Cli, api: ScriptedApi, project: Path, way: str
) -> None:
    command = "echo begun >here; until [ -e go ]; do sleep 0.05; done"
    api.script("slow", message(calls("Bash", {"command": command})), otherwise=message(says("On we go.")))
    with ChatDriver(api_cli, "chat", "--mode", "default", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("[slow] do it\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("y")
        wait_until((project / "here").exists)
        driver.type(way)
        driver.read_until("goes on in the background: ")
        driver.read_until("On we go.")
        (project / "go").touch()
        driver.read_until("is done: ")
        driver.type("/background\r")
        driver.read_until("No command runs.")
        driver.type("\x04")
        assert driver.wait() == 0


def test_who_attaches_later_can_send_it_to_the_background_and_stop_it(
    api_cli: Cli, api_daemon: Daemon, api: ScriptedApi, project: Path
) -> None:
    command = f"echo begun >here; {ENDLESS}"
    api.script("slow", message(calls("Bash", {"command": command})), otherwise=message(says("On we go.")))
    session = api_daemon.call("session/create", cwd=str(project), rules={"allow": ["Bash"]})
    api_daemon.call("turn/start", session_id=session["id"], input="[slow] do it")
    wait_until((project / "here").exists)
    with ChatDriver(api_cli, "attach", session["id"]) as driver:
        driver.type_line("/background")
        driver.read_until("goes on in the background: ")
        driver.read_until("On we go.")
        (task,) = api_daemon.call("task/list", session_id=session["id"])["tasks"]
        driver.type_line("/tasks")
        driver.read_until(f"{task['id']}  echo begun")
        driver.type_line("/stop")
        driver.read_until("Which one?")
        driver.type_line(f"/stop {task['id']}")
        driver.read_until(f"{task['id']} was stopped")
        driver.type_line("/tasks")
        driver.read_until("Nothing runs in the background.")
        driver.close_input()
        assert driver.wait() == 0
