"""Runs turns of a daemon with the scripted model, and of the bare agent beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.histories import MODEL, RESULT_TEXT
from tests.bench.model import list_file_paths
from tests.bench.processes import Bench, Child
from tests.support.daemon import Daemon

_LINES = 40


def prepare_project(bench: Bench) -> Path:
    """The working folder of the sessions, with files to read."""
    folder = bench.folder / "stable"
    if not folder.exists():
        folder.mkdir()
        for path in list_file_paths(folder):
            path.write_text("".join(f"{path.name}: the mare stands in box {line}\n" for line in range(_LINES)))
    return folder


@contextmanager
def run_scripted_model(bench: Bench) -> Iterator[Child]:
    with bench.start_child("model", {"folder": str(prepare_project(bench))}) as model:
        yield model


@contextmanager
def run_daemon_with_model(bench: Bench, home: Path, model: Child, **environment: str) -> Iterator[Daemon]:
    """A daemon that has sent one request to its model, so that what the first request loads is loaded."""
    with bench.run_settled_daemon(home, model.first_answer["url"], **environment) as daemon:
        run_turn(daemon, create_session(daemon, bench), "[words] hello", 1)
        yield daemon


def create_session(daemon: Daemon, bench: Bench) -> str:
    created = daemon.call(
        "session/create", cwd=str(prepare_project(bench)), model=MODEL, rules={"allow": ["Bash(true)"]}, title="new"
    )
    return str(created["id"])


def list_sessions_by_title(daemon: Daemon) -> dict[str, str]:
    return {session["title"]: session["id"] for session in daemon.call("session/list", limit=500)["sessions"]}


def run_turn(daemon: Daemon, session_id: str, text: str, requests: int) -> dict[str, Any]:
    """Run one turn until `requests` were made or the model is done."""
    result: dict[str, Any] = daemon.call("run", session_id=session_id, input=text, max_requests=requests)["turn"]
    if result["reason"] not in {"completed", "max_requests"} or result["denials"]:
        raise RuntimeError(f"the turn did not end as it should: {result}")
    return result


def run_bare_turns(agent: Child, conversations: list[str], requests: int, messages: int = 1) -> None:
    agent.call({"conversations": conversations, "requests": requests, "messages": messages, "text": RESULT_TEXT})
