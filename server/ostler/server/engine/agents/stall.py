"""Agents that make no progress: named to people and to the model, who may end them; nothing ends them by itself."""

from collections.abc import Callable
from typing import Final

import anyio

from ostler.protocol.events import Notice
from ostler.protocol.ids import SessionId
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.session.live import LiveSession
from ostler.server.events.activity import Activity

_LOOKS: Final = 4
"""How often it is looked for within the time that an agent may be silent."""
_MAX_WAIT_SECONDS: Final = 15.0


async def watch_for_stalls(
    activity: Activity,
    agent_id: SessionId,
    get_seconds: Callable[[], float],
    find_actor: Callable[[], SessionActor | None],
    tell: Callable[[LiveSession, int], None],
) -> None:
    """Tell each time that nothing has happened in an agent for too long, once until something happens again.

    Not of one that waits: for an ask, for a place, or for an agent of its own, which is watched itself.
    """
    told = False
    with activity.watch(agent_id):
        while True:
            seconds = get_seconds()
            await anyio.sleep(min(_MAX_WAIT_SECONDS, seconds / _LOOKS))
            silent, actor = activity.measure_silence(agent_id), find_actor()
            if silent < seconds:
                told = False
            elif not told and actor is not None and actor.run is not None and not _waits(actor):
                told = True
                tell(actor.live, int(silent))


def _waits(actor: SessionActor) -> bool:
    slot = actor.live.slot
    return (slot is not None and not slot.held) or (actor.run is not None and bool(actor.run.asks.open))


def describe_stall(live: LiveSession, seconds: int, call: str | None) -> str:
    """In one sentence, for people and the model."""
    agent = live.agent
    name = agent.shown.name if agent is not None else ""
    does = f" It runs: {call}" if call else " It waits for the model."
    return f"The agent {name!r} ({live.record.id}) has made no progress for {_format(seconds)}.{does}"


def tell_people(live: LiveSession, words: str, how: str) -> None:
    """Everybody at the root: an agent has no clients of its own."""
    live.root.journal.add_notice(None, Notice(level="warning", text=f"{words} {how}"))


def _format(seconds: int) -> str:
    return f"{seconds // 60} minutes" if seconds >= 120 else f"{seconds} seconds"
