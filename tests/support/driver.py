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
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.scripts import Step
from tests.support.messages_api.server import ScriptedApi

Json = dict[str, Any]

QUICK: Final = {"OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.01", "OSTLER_MODEL__MAX_RETRIES": "2", "OSTLER_TESTING": "1"}
"""Settings of a daemon that wastes no test's time."""

_numbers = itertools.count(1)


def environment(api: ScriptedApi, plug_in: Path, **more: str) -> dict[str, str]:
    return {**api.environment, **QUICK, **gate_tools.install(plug_in), **more}


@dataclass
class Talk:
    """One session, its script, and everything that its stream has told."""

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
        self._events = self.stream.events()

    @property
    def id(self) -> str:
        return str(self.session["id"])

    # Turns.

    def start(self, text: str = "Go on.", **params: Any) -> str:
        turn = self.daemon.call("turn/start", session_id=self.id, input=self.input(text), **params)
        return str(turn["id"])

    def input(self, text: str) -> str:
        """Words that find the script of this talk."""
        return f"[{self.name}] {text}"

    def turn(self, text: str = "Go on.", **params: Any) -> Json:
        """A turn, when it has ended."""
        return self.ended(self.start(text, **params))

    def ended(self, turn_id: str | None = None) -> Json:
        event = self.wait("turn.ended", lambda data: turn_id in {None, data["turn"]["id"]})
        turn: Json = event["data"]["turn"]
        return turn

    def refused(self, method: str, **params: Any) -> Json:
        """The error of a call that must fail."""
        error: Json = self.daemon.error(method, **params)
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
        self._events = self.stream.events()

    def types(self, *kinds: str) -> list[str]:
        """The types of the events so far, of those kinds where some are named."""
        return [event["type"] for event in self.seen if not kinds or event["type"] in kinds]

    def all(self, kind: str) -> list[Json]:
        return [event["data"] for event in self.seen if event["type"] == kind]

    def call_events(self) -> list[tuple[str, int]]:
        """What happened to the calls, in order, each with the place of its block."""
        return [
            (event["type"].removeprefix("tool."), int(event["data"]["call"]["call_id"].rpartition("#")[2]))
            for event in self.seen
            if event["type"] in {"tool.queued", "tool.started", "tool.completed"}
        ]

    # Asks.

    def ask(self) -> Json:
        """The next ask."""
        ask: Json = self.wait("ask.opened")["data"]["ask"]
        return ask

    def answer(self, ask: Json, choice: str, **more: Any) -> Json:
        answered: Json = self.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice, **more})
        return answered

    # What is stored.

    def messages(self) -> list[Json]:
        page = self.daemon.call("session/messages", session_id=self.id, limit=500)
        found: list[Json] = page["messages"]
        return found

    def transcript(self) -> list[tuple[str, list[str]]]:
        """Roles and the types of their blocks."""
        return [(one["role"], [block["type"] for block in one["content"]]) for one in self.messages()]

    def results(self) -> list[Json]:
        """All tool_result blocks, in order."""
        return [block for one in self.messages() for block in one["content"] if block["type"] == "tool_result"]

    def result_texts(self) -> list[str]:
        return ["".join(part["text"] for part in result["content"]) for result in self.results()]

    def state(self) -> Json:
        session: Json = self.daemon.call("session/get", session_id=self.id)
        return session

    @property
    def requests(self) -> list[Recorded]:
        return self.api.of(self.name)

    # The folder.

    def file(self, name: str, text: str = "") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def gate(self, name: str) -> str:
        return str(self.folder / name)

    def at_gate(self, name: str) -> None:
        """Wait until a call stands at the gate."""
        wait_until((self.folder / f"{name}.here").exists)

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    def written(self, name: str) -> str:
        """The content of a file that a command writes, when it has written something."""
        path = self.folder / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text().strip()

    # What must be true at the end of everything.

    def is_usable(self) -> None:
        """The session is at rest and does another turn, and nothing is left running."""
        state = self.state()
        assert (state["status"], state["turn"], state["message"], state["asks"]) == ("idle", None, None, [])
        self.api.script(self.name, otherwise=message(says("Still here.")))
        turn = self.turn("Are you there?")
        assert (turn["reason"], turn["result_text"], turn["error"]) == ("completed", "Still here.", None)
        no_children(self.daemon)


def no_children(daemon: Daemon) -> None:
    """No process of a call is left; the dead ones are buried within seconds."""
    process = psutil.Process(daemon.pid)
    wait_until(lambda: all(is_gone(child.pid) for child in process.children(recursive=True)))


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class Stage:
    """A daemon and its model: where talks are made."""

    daemon: Daemon
    api: ScriptedApi
    folder: Path
    talks: list[Talk] = field(default_factory=list)

    def talk(self, *steps: Step, otherwise: Step | None = None, folder: Path | None = None, **session: Any) -> Talk:
        """A new session in a new folder, with a script of its own."""
        name = f"talk-{next(_numbers)}"
        self.api.script(name, *steps, otherwise=otherwise)
        place = folder or self.folder / name
        place.mkdir(exist_ok=True)
        created = self.daemon.call("session/create", cwd=str(place), **session)
        stream = self.daemon.follow(f"?session={created['id']}")
        talk = Talk(self.daemon, self.api, name, place, created, stream)
        self.talks.append(talk)
        return talk

    def restart(self) -> None:
        """Kill the daemon, and start it again in the same home."""
        self.daemon.kill()
        self.daemon.start()
        for talk in self.talks:
            talk.reconnect()

    def close(self) -> None:
        for talk in self.talks:
            talk.stream.close()
        self.daemon.kill()
        self.daemon.end_commands()

    def leave(self) -> None:
        """End what a test left running, so that the next one finds the daemon at rest."""
        for talk in self.talks:
            talk.stream.close()
            answer = self.daemon.rpc("session/delete", {"session_id": talk.id})
            assert "result" in answer or answer["error"]["data"]["code"] == "session_not_found", answer
        self.talks.clear()


def seconds_of(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


class Beside:
    """Something that happens in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._found: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()), daemon=True)
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(30)
        assert self._found, "it did not come back"
        return self._found[0]
