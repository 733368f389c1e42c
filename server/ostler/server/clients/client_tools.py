"""Tools that clients provide: the call travels to one of them as an event, and the answer comes back as a method."""

from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from ostler.protocol.client import ClientCall, ClientRespond, ClientResponded
from ostler.protocol.errors import ClientCallNotFound
from ostler.protocol.ids import ClientCallId, ClientId, new_client_call_id
from ostler.server.clients.presence import Presence
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope

MAX_WAITING: Final = 1000
"""Calls that wait for clients at one time; further ones get no answer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a client gave back."""

    output: Any
    error: str | None


@dataclass(slots=True)
class _Waiting:
    client_id: ClientId
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Answered | None = None


class ClientCalls:
    """Asks clients, and knows which answers are still waited for."""

    def __init__(self, log: EventLog, presence: Presence) -> None:
        self._log = log
        self._presence = presence
        self._waiting: dict[ClientCallId, _Waiting] = {}
        presence.on_gone.append(self._gone)

    async def call(self, scope: Scope, tool: str, given: dict[str, Any], seconds: float) -> Answered | None:
        """The first answer; null where no client has the tool, it went away, or its time is over."""
        client_id = self._presence.provider_of(tool, scope)
        if client_id is None or len(self._waiting) >= MAX_WAITING:
            return None
        call_id = new_client_call_id()
        waiting = self._waiting[call_id] = _Waiting(client_id)
        try:
            wanted = ClientCall(id=call_id, client_id=client_id, tool=tool, input=given, timeout_ms=int(seconds * 1000))
            self._log.say("client.call", scope, wanted)
            with anyio.move_on_after(seconds):
                await waiting.done.wait()
        finally:
            del self._waiting[call_id]
        return waiting.answer

    def respond(self, params: ClientRespond, client_id: ClientId | None) -> ClientResponded:
        """Take an answer from the client that was asked."""
        waiting = self._waiting.get(params.client_call_id)
        if waiting is None or waiting.done.is_set() or waiting.client_id != client_id:
            raise ClientCallNotFound(params.client_call_id)
        waiting.answer = Answered(None if params.error is not None else params.output, params.error)
        waiting.done.set()
        return ClientResponded(client_call_id=params.client_call_id)

    def _gone(self, client_id: ClientId) -> None:
        """Nobody waits for a client that has left."""
        for waiting in self._waiting.values():
            if waiting.client_id == client_id:
                waiting.done.set()
