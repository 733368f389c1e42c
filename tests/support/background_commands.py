"""Driving commands behind their calls, and looking for what they leave."""

import os
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Daemon, wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says

LONG: Final = "true; sleep 1000"
"""A command that goes on; one that only sleeps would be refused."""


def in_background(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "run_in_background": True}


def until(path: Path) -> str:
    """A command that ends when the file is there."""
    return f"until [ -e {path} ]; do sleep 0.05; done"


def talk_behind(stage: Stage, *commands: str, **session: Any) -> tuple[Talk, list[Json]]:
    """A session whose first turn started these commands, and their tasks."""
    talk = stage.talk(rules={"allow": ["Bash"]}, **session)
    starting = message(*(calls(*in_background(command)) for command in commands))
    stage.api.script(talk.name, starting, otherwise=message(says("It runs.")))
    assert talk.turn()["reason"] == "completed"
    tasks = [talk.wait("task.started")["data"]["task"] for _ in commands]
    # Those that only read start beside each other, in any order.
    return talk, sorted(tasks, key=lambda task: int(task["call_id"].rpartition("#")[2]))


def ended(talk: Talk, task: Json) -> Json:
    """The task when its end is told."""
    found: Json = talk.wait("task.ended", lambda data: data["task"]["id"] == task["id"])["data"]["task"]
    return found


def printed(daemon: Daemon, task: Json, text: str) -> None:
    """Wait until the task has printed this."""
    wait_until(lambda: text in daemon.call("task/output", task_id=task["id"])["output"])


def processes_of(task: Json) -> set[int]:
    """What belongs to the call of a task, by the mark that it carries."""
    mark = f"OSTLER_CALL={task['call_id']}".encode()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _environment(name)}


def _environment(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def notes_about(talk: Talk, task: Json) -> list[Json]:
    """The messages in which the model was told of the end of a task."""
    return [
        one
        for one in talk.messages()
        for block in one["content"]
        if block["type"] == "text" and block["text"].startswith(f"<ostler-note>\nThe background task {task['id']} ")
    ]


def descriptors(daemon: Daemon) -> int:
    """Without those of the database, whose readers come when they are needed."""
    return sum("ostler.db" not in _target(daemon, name) for name in os.listdir(f"/proc/{daemon.pid}/fd"))


def _target(daemon: Daemon, name: str) -> str:
    try:
        return os.readlink(f"/proc/{daemon.pid}/fd/{name}")
    except OSError:
        return ""
