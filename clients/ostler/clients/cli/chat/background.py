"""Sending the commands that a turn waits for to the background."""

from typing import TYPE_CHECKING, Final

import anyio

from ostler.protocol.errors import Conflict, NoTurnRunning
from ostler.protocol.ids import CallId
from ostler.protocol.methods import TOOL_BACKGROUND
from ostler.protocol.tool import CallRef

if TYPE_CHECKING:
    from ostler.clients import EventStream, Ostler
    from ostler.protocol.events import Event
    from ostler.protocol.shapes import Turn

_SILENCE_SECONDS: Final = 0.5
"""Stored events come without a pause: after so long there are no more."""


async def send_to_background(ostler: "Ostler", turn: "Turn") -> list[CallId]:
    """Send every command that the turn runs now; the calls that go on in the background from now on."""
    sent: list[CallId] = []
    for call_id in await _find_running_calls(ostler, turn):
        try:
            await ostler.call(TOOL_BACKGROUND, CallRef(call_id=call_id))
            sent.append(call_id)
        except NoTurnRunning:
            continue  # it ended a moment ago
        except Conflict as refused:
            if "call_id" not in refused.data:
                raise  # it is not about this call: none may
    return sent


async def _find_running_calls(ostler: "Ostler", turn: "Turn") -> list[CallId]:
    """By what has happened in the turn: it may have begun long before anybody looked here."""
    running: dict[CallId, None] = {}
    async with ostler.events(turn.session_id, after=turn.cursor) as events:
        while (event := await _next_stored_event(events)) is not None:
            call = event.data.get("call", {})
            if event.type == "tool.started":
                running[CallId(call["call_id"])] = None
            elif event.type == "tool.completed":
                running.pop(CallId(call["call_id"]), None)
    return list(running)


async def _next_stored_event(events: "EventStream") -> "Event | None":
    """None where what happens now begins."""
    with anyio.move_on_after(_SILENCE_SECONDS):
        event = await anext(events)
        return event if event.cursor is not None and event.type != "stream.reset" else None
    return None
