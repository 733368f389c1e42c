"""Driving a daemon through conversations with the scripted model."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.support import gate_tools
from tests.support.daemon import Daemon, EventStream, wait_until
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.scripts import Step
from tests.support.messages_api.server import ScriptedApi

Json = dict[str, Any]

QUICK_SETTINGS: Final = {
    "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.01",
    "OSTLER_MODEL__MAX_RETRIES": "2",
    "OSTLER_TESTING": "1",
}
"""Settings with which a daemon retries at once."""

_numbers = itertools.count(1)


def build_environment(api: ScriptedApi, plug_in: Path, **more: str) -> dict[str, str]:
    return {**api.environment, **QUICK_SETTINGS, **gate_tools.install(plug_in), **more}


@dataclass
class SessionDriver:
    """One session, its script, and every event that its stream has sent."""

    daemon: Daemon
    api: ScriptedApi
    name: str
    folder: Path
    session: Json
    stream: EventStream
    seen: list[Json] = field(default_factory=list)
    _returned: set[int] = field(default_factory=set)
    _events: Iterator[Json] = field(init=False)

    def __post_init__(self) -> None:
        self._events = self.stream.read_events()

    @property
    def id(self) -> str:
        return str(self.session["id"])

    # Turns.

    def start(self, text: str = "Go on.", **params: Any) -> str:
        turn = self.daemon.call("turn/start", session_id=self.id, input=self.tag_input(text), **params)
        return str(turn["id"])

    def tag_input(self, text: str) -> str:
        """The text with the marker that finds the script of this session."""
        return f"[{self.name}] {text}"

    def run_turn(self, text: str = "Go on.", **params: Any) -> Json:
        """Run a turn to its end."""
        return self.wait_for_turn_end(self.start(text, **params))

    def wait_for_turn_end(self, turn_id: str | None = None) -> Json:
        event = self.wait("turn.ended", lambda data: turn_id in {None, data["turn"]["id"]})
        turn: Json = event["data"]["turn"]
        return turn

    def expect_error(self, method: str, **params: Any) -> Json:
        """The error of a call that must fail."""
        error: Json = self.daemon.expect_error(method, **params)
        return error

    # Events.

    def wait(self, kind: str, where: Callable[[Json], bool] = lambda data: True) -> Json:
        """The next event of that type that no `wait` has returned before, whether it was seen already or not."""
        for at in itertools.count():
            while at >= len(self.seen):
                self.seen.append(self.next_event())
            event = self.seen[at]
            if at not in self._returned and event["type"] == kind and where(event["data"]):
                self._returned.add(at)
                return event
        raise AssertionError("a count has no end")

    def next_event(self) -> Json:
        """The next one of the stream, which the caller adds to `seen`."""
        event = next(self._events)
        if event["type"] == "stream.lagged":
            # As every client does: what is large came faster than it could be read.
            self.reconnect(event["data"]["cursor"])
            return self.next_event()
        return event

    def reconnect(self, after: int | str = "now") -> None:
        self.stream.close()
        self.stream = self.daemon.follow(f"?session={self.id}&after={after}")
        self._events = self.stream.read_events()

    def list_event_types(self, *kinds: str) -> list[str]:
        """The types of the events so far, of those kinds where some are named."""
        return [event["type"] for event in self.seen if not kinds or event["type"] in kinds]

    def list_event_data(self, kind: str) -> list[Json]:
        return [event["data"] for event in self.seen if event["type"] == kind]

    def list_call_events(self) -> list[tuple[str, int]]:
        """What happened to the calls, in order, each with the place of its block."""
        return [
            (event["type"].removeprefix("tool."), int(event["data"]["call"]["call_id"].rpartition("#")[2]))
            for event in self.seen
            if event["type"] in {"tool.queued", "tool.started", "tool.completed"}
        ]

    # Asks.

    def wait_for_ask(self) -> Json:
        """The next ask."""
        ask: Json = self.wait("ask.opened")["data"]["ask"]
        return ask

    def answer(self, ask: Json, choice: str, **more: Any) -> Json:
        answered: Json = self.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice, **more})
        return answered

    # What is stored.

    def fetch_messages(self) -> list[Json]:
        page = self.daemon.call("session/messages", session_id=self.id, limit=500)
        found: list[Json] = page["messages"]
        return found

    def outline_messages(self) -> list[tuple[str, list[str]]]:
        """The role of each message, and the types of its blocks."""
        return [(one["role"], [block["type"] for block in one["content"]]) for one in self.fetch_messages()]

    def fetch_results(self) -> list[Json]:
        """All tool_result blocks, in order."""
        return [block for one in self.fetch_messages() for block in one["content"] if block["type"] == "tool_result"]

    def fetch_result_texts(self) -> list[str]:
        return ["".join(part["text"] for part in result["content"]) for result in self.fetch_results()]

    def fetch_state(self) -> Json:
        session: Json = self.daemon.call("session/get", session_id=self.id)
        return session

    @property
    def requests(self) -> list[RecordedRequest]:
        return self.api.list_requests(self.name)

    # The folder.

    def write_file(self, name: str, text: str = "") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def get_gate_path(self, name: str) -> str:
        return str(self.folder / name)

    def wait_at_gate(self, name: str) -> None:
        """Wait until a call stands at the gate."""
        wait_until((self.folder / f"{name}.here").exists)

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    def wait_for_file(self, name: str) -> str:
        """The content of a file that a command writes, when it has written something."""
        path = self.folder / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text().strip()

    # What must be true at the end of everything.

    def expect_usable(self) -> None:
        """The session is at rest and does another turn, and nothing is left running."""
        state = self.fetch_state()
        assert (state["status"], state["turn"], state["message"], state["asks"]) == ("idle", None, None, [])
        self.api.script(self.name, otherwise=message(says("Still here.")))
        turn = self.run_turn("Are you there?")
        assert (turn["reason"], turn["result_text"], turn["error"]) == ("completed", "Still here.", None)
        expect_no_children(self.daemon)


def expect_no_children(daemon: Daemon) -> None:
    """No process of a call is left; the daemon reaps zombies within seconds."""
    process = psutil.Process(daemon.pid)
    wait_until(lambda: all(is_gone(child.pid) for child in process.children(recursive=True)))


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class Harness:
    """A daemon and its scripted model; it opens sessions, each with a script of its own."""

    daemon: Daemon
    api: ScriptedApi
    folder: Path
    drivers: list[SessionDriver] = field(default_factory=list)

    def open_session(
        self, *steps: Step, otherwise: Step | None = None, folder: Path | None = None, **session: Any
    ) -> SessionDriver:
        """A new session in a new folder, with a script of its own."""
        name = f"session-{next(_numbers)}"
        self.api.script(name, *steps, otherwise=otherwise)
        place = folder or self.folder / name
        place.mkdir(exist_ok=True)
        created = self.daemon.call("session/create", cwd=str(place), **session)
        stream = self.daemon.follow(f"?session={created['id']}")
        driver = SessionDriver(self.daemon, self.api, name, place, created, stream)
        self.drivers.append(driver)
        return driver

    def restart(self) -> None:
        """Kill the daemon, and start it again in the same home."""
        self.daemon.kill()
        self.daemon.start()
        for driver in self.drivers:
            driver.reconnect()

    def close(self) -> None:
        for driver in self.drivers:
            driver.stream.close()
        self.daemon.kill()
        self.daemon.end_commands()

    def end_sessions(self) -> None:
        """End what a test left running, so that the next one finds the daemon at rest."""
        for driver in self.drivers:
            driver.stream.close()
            answer = self.daemon.send_rpc("session/delete", {"session_id": driver.id})
            assert "result" in answer or answer["error"]["data"]["code"] == "session_not_found", answer
        self.drivers.clear()


def measure_seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


class BackgroundThread:
    """Runs a function in a thread, and keeps its result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.append(work()), daemon=True)
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(30)
        assert self._results, "it did not come back"
        return self._results[0]
