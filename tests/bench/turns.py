"""Turns of a daemon with the scripted model, and of the bare loop beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.histories import MODEL, ONE_RESULT
from tests.bench.model import file_names
from tests.bench.processes import Bench, Child
from tests.support.daemon import Daemon

_LINES = 40


def stable(bench: Bench) -> Path:
    """The folder that sessions work in, with files to read."""
    folder = bench.folder / "stable"
    if not folder.exists():
        folder.mkdir()
        for path in file_names(folder):
            path.write_text("".join(f"{path.name}: the mare stands in box {line}\n" for line in range(_LINES)))
    return folder


@contextmanager
def scripted_model(bench: Bench) -> Iterator[Child]:
    with bench.child("model", {"folder": str(stable(bench))}) as model:
        yield model


@contextmanager
def daemon_with_model(bench: Bench, home: Path, model: Child) -> Iterator[Daemon]:
    """A daemon that has asked its model once, so that all that comes with the first request is loaded."""
    with bench.settled_daemon(home, model.first["url"]) as daemon:
        run(daemon, new_session(daemon, bench), "[words] hello", 1)
        yield daemon


def new_session(daemon: Daemon, bench: Bench) -> str:
    created = daemon.call(
        "session/create", cwd=str(stable(bench)), model=MODEL, rules={"allow": ["Bash(true)"]}, title="new"
    )
    return str(created["id"])


def sessions_by_title(daemon: Daemon) -> dict[str, str]:
    return {session["title"]: session["id"] for session in daemon.call("session/list", limit=500)["sessions"]}


def run(daemon: Daemon, session_id: str, text: str, requests: int) -> dict[str, Any]:
    """One turn to its end, which is the last of so many requests, or the model's."""
    result: dict[str, Any] = daemon.call("run", session_id=session_id, input=text, max_requests=requests)["turn"]
    if result["reason"] not in {"completed", "max_requests"} or result["denials"]:
        raise RuntimeError(f"the turn did not end as it should: {result}")
    return result


def run_bare(agent: Child, conversations: list[str], requests: int, messages: int = 1) -> None:
    agent.ask({"conversations": conversations, "requests": requests, "messages": messages, "text": ONE_RESULT})
