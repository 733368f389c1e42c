"""A session at work on a daemon that dies: what the tests of recovery do to it, and what has to hold afterwards."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from ostler.tools.process.environment import MARKER
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.scripts import Step
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE

_WAIT_MS: Final = 20_000


@dataclass(slots=True)
class Scene:
    """One session, the daemon that it lives on, and the model that it speaks to, which outlives the daemon."""

    daemon: Daemon
    api: ScriptedApi
    folder: Path
    session_id: str = field(default="", init=False)

    def create(self, **options: Any) -> None:
        """The session that all the rest is about."""
        self.session_id = self.daemon.call("session/create", cwd=str(self.folder), **options)["id"]

    def script(self, *steps: Step) -> None:
        """What the model says, message by message; it is brief about everything after that."""
        self.api.script("go", *steps, otherwise=DONE)

    def begin(self, text: str = "[go] Do it.", **options: Any) -> str:
        """A turn that has just been acknowledged."""
        return str(self.daemon.call("turn/start", session_id=self.session_id, input=text, **options)["id"])

    def crash(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def terminate(self) -> None:
        """A stop in good order, and a new start."""
        assert self.daemon.stop() == 0
        self.daemon.start()

    # Looking.

    def wait_for(self, kind: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first event of this kind, from the beginning of the log on, whose data fits."""
        with self.daemon.follow(f"?after=0&session={self.session_id}") as stream:
            found = (event["data"] for event in stream.events() if event["type"] == kind and holds(event["data"]))
            return dict(next(found))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the log says of this kind so far."""
        head = self.daemon.call("server/stats")["cursor"]
        found: list[dict[str, Any]] = []
        with self.daemon.follow("?after=0") as stream:
            for event in stream.events():
                if event["type"] == kind and event["session_id"] == self.session_id:
                    found.append(event["data"])
                if event["cursor"] is not None and event["cursor"] >= head:
                    return found
        raise AssertionError("the log ended early")

    def session(self) -> dict[str, Any]:
        return dict(self.daemon.call("session/get", session_id=self.session_id))

    def turn(self, turn_id: str) -> dict[str, Any]:
        return dict(self.daemon.call("turn/get", turn_id=turn_id))

    def rests(self, turn_id: str) -> dict[str, Any]:
        """The turn when it has ended, or waits for somebody."""
        turn = self.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=_WAIT_MS)
        assert turn["status"] in {"ended", "waiting"}, turn
        return dict(turn)

    def ends(self, turn_id: str) -> dict[str, Any]:
        return dict(self.wait_for("turn.ended", lambda data: data["turn"]["id"] == turn_id)["turn"])

    def turns(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("turn/list", session_id=self.session_id)["turns"]
        return found

    def asks(self, status: str | None = "open") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.call("ask/list", session_id=self.session_id, status=status)["asks"]
        return found

    def messages(self) -> list[dict[str, Any]]:
        self.session()  # waits for a recovery that is under way
        found: list[dict[str, Any]] = self.daemon.call("session/messages", session_id=self.session_id)["messages"]
        return found

    def results(self) -> dict[str, str]:
        """What the model was given for each call, by the call's id."""
        blocks = (block for message in self.messages() for block in message["content"])
        return {block["tool_use_id"]: text_of(block) for block in blocks if block["type"] == "tool_result"}

    def answer(self, ask: dict[str, Any], choice: str = "allow", **words: Any) -> dict[str, Any]:
        return dict(self.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice, **words}))

    # The rows, while nobody else has them.

    @contextmanager
    def rows(self) -> Iterator[sqlite3.Connection]:
        """The dead daemon's database, to be left as another moment of death would have left it."""
        assert self.daemon.process is not None
        assert self.daemon.process.poll() is not None
        with closing(sqlite3.connect(self.daemon.home / "ostler.db")) as connection, connection:
            yield connection

    # What has to hold in the end.

    def expect_whole(self) -> None:
        """Nothing is left of the accident: the history is valid, nothing runs, and the next turn works."""
        self.expect_valid_history()
        self.expect_nothing_running()
        session = self.session()
        assert session["status"] == "idle", session
        assert session["turn"] is None
        assert session["message"] is None
        assert session["asks"] == []
        turn = self.ends(self.begin("And now?"))
        assert turn["reason"] == "completed", turn
        self.expect_valid_history()

    def expect_valid_history(self) -> None:
        """Each tool_use has exactly one result, in the next message, in order."""
        messages = self.messages()
        for at, each in enumerate(messages):
            uses = [block["id"] for block in each["content"] if block["type"] == "tool_use"]
            after = messages[at + 1]["content"] if at + 1 < len(messages) and each["role"] == "assistant" else []
            results = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
            assert uses == results, each
        assert sum(_count(message, "tool_use") for message in messages) == sum(
            _count(message, "tool_result") for message in messages
        )

    def expect_nothing_running(self) -> None:
        calls = {event["call"]["call_id"] for event in self.events("tool.started")}
        wait_until(lambda: not left_running(calls))


def _count(message: dict[str, Any], kind: str) -> int:
    return sum(block["type"] == kind for block in message["content"])


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def left_running(call_ids: set[str]) -> set[int]:
    """The processes that belong to one of these calls."""
    marks = {f"{MARKER}={call_id}".encode() for call_id in call_ids}
    return {pid for pid in _pids() if marks & set(_environment(pid))}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.fixture
def scene(api: ScriptedApi, home: Path, tmp_path: Path) -> Iterator[Scene]:
    """A daemon that speaks to the scripted model, and a folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**api.environment, "OSTLER_TESTING": "1", "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.01"}
    with Daemon(home, environment=environment) as daemon:
        yield Scene(daemon, api, folder)
