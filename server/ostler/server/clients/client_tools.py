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
"""The most calls that wait for clients at one time; further ones get no answer."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """The answer of a client to a call of its tool."""

    output: Any
    error: str | None


@dataclass(slots=True)
class _PendingCall:
    client_id: ClientId
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: ClientAnswer | None = None


class ClientTools:
    """Calls tools that clients provide, and keeps the calls whose answers are still awaited."""

    def __init__(self, log: EventLog, presence: Presence) -> None:
        self._log = log
        self._presence = presence
        self._pending: dict[ClientCallId, _PendingCall] = {}
        presence.on_gone.append(self._release_calls)

    async def call(self, scope: Scope, tool: str, tool_input: dict[str, Any], seconds: float) -> ClientAnswer | None:
        """The answer of the client; None where no client has the tool, it disconnected, or the time is over."""
        client_id = self._presence.find_tool_provider(tool, scope)
        if client_id is None or len(self._pending) >= MAX_WAITING:
            return None
        call_id = new_client_call_id()
        pending = self._pending[call_id] = _PendingCall(client_id)
        try:
            client_call = ClientCall(
                id=call_id, client_id=client_id, tool=tool, input=tool_input, timeout_ms=int(seconds * 1000)
            )
            self._log.publish_transient("client.call", scope, client_call)
            with anyio.move_on_after(seconds):
                await pending.done.wait()
        finally:
            del self._pending[call_id]
        return pending.answer

    def respond(self, params: ClientRespond, client_id: ClientId | None) -> ClientResponded:
        """Take an answer from the client that was asked."""
        pending = self._pending.get(params.client_call_id)
        if pending is None or pending.done.is_set() or pending.client_id != client_id:
            raise ClientCallNotFound(params.client_call_id)
        pending.answer = ClientAnswer(None if params.error is not None else params.output, params.error)
        pending.done.set()
        return ClientResponded(client_call_id=params.client_call_id)

    def _release_calls(self, client_id: ClientId) -> None:
        """End the pending calls of a client that has disconnected, without an answer."""
        for pending in self._pending.values():
            if pending.client_id == client_id:
                pending.done.set()
