"""A client that provides tools, as an editor does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.daemon import Daemon, EventStream, wait_until
from tests.support.driver import Json

DIAGNOSTICS = "mcp__ide__getDiagnostics"


@dataclass
class Editor:
    """An initialized client with an event stream, which gets one call at a time."""

    daemon: Daemon
    client_id: str
    stream: EventStream
    _events: Iterator[Json] = field(init=False)

    def __post_init__(self) -> None:
        self._events = self.stream.read_events()

    @property
    def headers(self) -> dict[str, str]:
        return {"Ostler-Client": self.client_id}

    def wait_for_event(self, kind: str) -> Json:
        """The next event of that type."""
        return next(event for event in self._events if event["type"] == kind)

    def wait_for_call(self) -> Json:
        """The next call that it gets."""
        event = self.wait_for_event("client.call")
        assert event["cursor"] is None
        call: Json = event["data"]
        return call

    def respond(self, call_id: str, **answer: Any) -> Json:
        """The whole JSON-RPC answer to an answer."""
        params = {"client_call_id": call_id, **answer}
        told: Json = self.daemon.send_rpc("client/respond", params, headers=self.headers)
        return told

    def answer_next(self, output: Callable[[Json], Any]) -> Json:
        """Answers the next call, and gives it back."""
        call = self.wait_for_call()
        assert "result" in self.respond(call["id"], output=output(call["input"]))
        return call


@contextmanager
def open_editor(daemon: Daemon, query: str = "", tools: tuple[str, ...] = (DIAGNOSTICS,)) -> Iterator[Editor]:
    declared = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    client = {"name": "an editor", "version": "1", "kind": "ide"}
    client_id = daemon.call("initialize", client=client, capabilities={"tools": declared})["client_id"]
    with daemon.follow(query, {"Ostler-Client": client_id}) as stream:
        # The stream is answered a moment before the client counts as attached.
        wait_until(lambda: client_id in {each["id"] for each in daemon.call("client/list")["clients"]})
        yield Editor(daemon, client_id, stream)


def build_diagnostics(uri: str, *found: tuple[int, str, int]) -> Json:
    """Diagnostics as language servers give them: line from 0, message, severity."""
    return {
        "uri": uri,
        "diagnostics": [
            {"message": words, "severity": severity, "range": {"start": {"line": line, "character": 2}}}
            for line, words, severity in found
        ],
    }
