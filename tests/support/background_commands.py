"""Commands in the background: starting them as tasks, waiting for them, and finding what they leave."""

import os
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Daemon, wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message, says
from tests.support.model_replies import DONE

LONG_COMMAND: Final = "set +e; sleep 1000"
"""More than reading, so that several of them start in their order."""
"""A command that goes on; one that only sleeps would be refused."""
SHELLS_ALLOWED: Final = {"allow": ["Bash", "PowerShell"]}


def build_background_call(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "run_in_background": True}


def build_wait_command(path: Path) -> str:
    """A command that ends when the file is there."""
    return f"until [ -e {path} ]; do sleep 0.05; done"


def open_session_with_tasks(harness: Harness, *commands: str, **session: Any) -> tuple[SessionDriver, list[Json]]:
    """A session whose first turn started these commands, and their tasks."""
    driver = harness.open_session(rules={"allow": ["Bash"]}, **session)
    starting = message(*(calls(*build_background_call(command)) for command in commands))
    harness.api.script(driver.name, starting, otherwise=message(says("It runs.")))
    assert driver.run_turn()["reason"] == "completed"
    tasks = [driver.wait("task.started")["data"]["task"] for _ in commands]
    # Commands that only read start concurrently, in any order.
    return driver, sorted(tasks, key=lambda task: int(task["call_id"].rpartition("#")[2]))


def wait_for_task_end(driver: SessionDriver, task: Json) -> Json:
    """The task as its `task.ended` event has it."""
    found: Json = driver.wait("task.ended", lambda data: data["task"]["id"] == task["id"])["data"]["task"]
    return found


def wait_for_output(daemon: Daemon, task: Json, text: str) -> None:
    """Wait until the task has printed this."""
    wait_until(lambda: text in daemon.call("task/output", task_id=task["id"])["output"])


def find_task_processes(task: Json) -> set[int]:
    """The processes of a task, found by the call id in their environment."""
    mark = f"OSTLER_CALL={task['call_id']}".encode()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _read_environment(name)}


def _read_environment(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def find_task_notes(driver: SessionDriver, task: Json) -> list[Json]:
    """The messages in which the model was told of the end of a task."""
    return [
        one
        for one in driver.fetch_messages()
        for block in one["content"]
        if block["type"] == "text" and block["text"].startswith(f"<ostler-note>\nThe background task {task['id']} ")
    ]


def count_descriptors(daemon: Daemon) -> int:
    """The daemon's open files without those of the database, whose readers are opened on demand."""
    return sum("ostler.db" not in _read_link(daemon, name) for name in os.listdir(f"/proc/{daemon.pid}/fd"))


def _read_link(daemon: Daemon, name: str) -> str:
    try:
        return os.readlink(f"/proc/{daemon.pid}/fd/{name}")
    except OSError:
        return ""


def run_call(harness: Harness, given: Json, tool: str = "Bash") -> tuple[SessionDriver, Json]:
    """A turn with one call, and that call."""
    driver = harness.open_session(rules=SHELLS_ALLOWED)
    harness.api.script(driver.name, message(calls(tool, given)), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
    call: Json = driver.wait("tool.completed")["data"]["call"]
    return driver, call
