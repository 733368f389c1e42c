"""A session at work on a daemon that dies: what the tests of recovery do to it, and what has to hold afterwards."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from ostler.storage import Snapshot
from ostler.tools.process.environment import MARKER
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.scripts import Step
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE

_WAIT_MS: Final = 20_000


@dataclass(slots=True)
class CrashSession:
    """One session on a daemon that is killed and started again, and the scripted model, which goes on running."""

    daemon: Daemon
    api: ScriptedApi
    folder: Path
    session_id: str = field(default="", init=False)

    def create(self, **options: Any) -> None:
        """Create the session that all other methods are about."""
        self.session_id = self.daemon.call("session/create", cwd=str(self.folder), **options)["id"]

    def script(self, *steps: Step) -> None:
        """What the model says, message by message; after that it only says that it is done."""
        self.api.script("go", *steps, otherwise=DONE)

    def start_turn(self, text: str = "[go] Do it.", **options: Any) -> str:
        """Start a turn; it has been acknowledged, and no more."""
        return str(self.daemon.call("turn/start", session_id=self.session_id, input=text, **options)["id"])

    def crash(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def restart_gracefully(self) -> None:
        """Stop the daemon with SIGTERM, and start it again."""
        assert self.daemon.stop() == 0
        self.daemon.start()

    # Reading the state.

    def wait_for(self, kind: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first event of this kind, from the beginning of the log on, whose data fits."""
        with self.daemon.follow(f"?after=0&session={self.session_id}") as stream:
            found = (event["data"] for event in stream.read_events() if event["type"] == kind and holds(event["data"]))
            return dict(next(found))

    def list_events(self, kind: str) -> list[dict[str, Any]]:
        """What the log says of this kind so far."""
        head = self.daemon.call("server/stats")["cursor"]
        found: list[dict[str, Any]] = []
        with self.daemon.follow("?after=0") as stream:
            for event in stream.read_events():
                if event["type"] == kind and event["session_id"] == self.session_id:
                    found.append(event["data"])
                if event["cursor"] is not None and event["cursor"] >= head:
                    return found
        raise AssertionError("the log ended early")

    def fetch_session(self) -> dict[str, Any]:
        return dict(self.daemon.call("session/get", session_id=self.session_id))

    def fetch_turn(self, turn_id: str) -> dict[str, Any]:
        return dict(self.daemon.call("turn/get", turn_id=turn_id))

    def wait_for_turn_rest(self, turn_id: str) -> dict[str, Any]:
        """The turn when it has ended, or waits for an answer."""
        turn = self.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=_WAIT_MS)
        assert turn["status"] in {"ended", "waiting"}, turn
        return dict(turn)

    def wait_for_turn_end(self, turn_id: str) -> dict[str, Any]:
        return dict(self.wait_for("turn.ended", lambda data: data["turn"]["id"] == turn_id)["turn"])

    def list_turns(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("turn/list", session_id=self.session_id)["turns"]
        return found

    def list_asks(self, status: str | None = "open") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("ask/list", session_id=self.session_id, status=status)["asks"]
        return found

    def fetch_messages(self) -> list[dict[str, Any]]:
        self.fetch_session()  # waits for a recovery that is under way
        found: list[dict[str, Any]] = self.daemon.call("session/messages", session_id=self.session_id)["messages"]
        return found

    def fetch_results(self) -> dict[str, str]:
        """What the model was given for each call, by the call's id."""
        blocks = (block for message in self.fetch_messages() for block in message["content"])
        return {block["tool_use_id"]: extract_text(block) for block in blocks if block["type"] == "tool_result"}

    def answer(self, ask: dict[str, Any], choice: str = "allow", **words: Any) -> dict[str, Any]:
        return dict(self.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice, **words}))

    # The database, while no daemon has it open.

    @contextmanager
    def open_database(self) -> Iterator[Snapshot]:
        """The dead daemon's database, to be changed into what a crash at another moment would have left."""
        assert self.daemon.process is not None
        assert self.daemon.process.poll() is not None
        with closing(sqlite3.connect(self.daemon.home / "ostler.db")) as connection, connection:
            yield Snapshot(connection)

    # What has to hold in the end.

    def expect_recovered(self) -> None:
        """The session has recovered: the history is valid, nothing runs, and the next turn works."""
        self.expect_valid_history()
        self.expect_nothing_running()
        session = self.fetch_session()
        assert session["status"] == "idle", session
        assert session["turn"] is None
        assert session["message"] is None
        assert session["asks"] == []
        turn = self.wait_for_turn_end(self.start_turn("And now?"))
        assert turn["reason"] == "completed", turn
        self.expect_valid_history()

    def expect_valid_history(self) -> None:
        """Each tool_use has exactly one result, in the next message, in order."""
        messages = self.fetch_messages()
        for at, each in enumerate(messages):
            uses = [block["id"] for block in each["content"] if block["type"] == "tool_use"]
            after = messages[at + 1]["content"] if at + 1 < len(messages) and each["role"] == "assistant" else []
            results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
            assert uses == results, each
        assert sum(_count_blocks(message, "tool_use") for message in messages) == sum(
            _count_blocks(message, "tool_result") for message in messages
        )

    def expect_nothing_running(self) -> None:
        calls = {event["call"]["call_id"] for event in self.list_events("tool.started")}
        wait_until(lambda: not find_processes(calls))


def _count_blocks(message: dict[str, Any], kind: str) -> int:
    return sum(block["type"] == kind for block in message["content"])


def extract_text(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def find_processes(call_ids: set[str]) -> set[int]:
    """The processes that belong to one of these calls."""
    marks = {f"{MARKER}={call_id}".encode() for call_id in call_ids}
    return {pid for pid in _list_pids() if marks & set(_read_environment(pid))}


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read_environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.fixture
def scene(api: ScriptedApi, home: Path, tmp_path: Path) -> Iterator[CrashSession]:
    """A daemon that speaks to the scripted model, and a folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**api.environment, "OSTLER_TESTING": "1", "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.01"}
    with Daemon(home, environment=environment) as daemon:
        yield CrashSession(daemon, api, folder)
