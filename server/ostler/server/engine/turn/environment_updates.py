"""What the model was told of its surroundings, and what is news since.

It is remembered with the message that tells it, in one unit of work: what the model has not got was not told.
"""

from collections.abc import Mapping
from typing import Any, Final

from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.environment import Facts, GitState, known_now, look_around

_TOLD: Final = "facts"
_BEFORE: Final = "facts_before_opening"
"""What the model knew before the input that opened the last turn, which a hook may take back."""


async def facts(live: LiveSession) -> Facts:
    """All of them, looked at."""
    return await look_around(live.record.cwd, live.record.directories, live.mode)


def told_facts(live: LiveSession) -> Facts | None:
    """As the model was told them last; null before the first request."""
    stored = live.state.get(_TOLD)
    return Facts.decoded(stored.encode()) if stored else None


def facts_meanwhile(live: LiveSession, told: Facts, git: GitState | None) -> Facts:
    """As they are in the middle of a turn: what is in memory, and git as it was last looked at."""
    return known_now(told, live.record.cwd, live.record.directories, live.mode, git)


def with_opening(live: LiveSession, facts: Facts) -> dict[str, Any]:
    """What is remembered with the input that opens a turn."""
    encoded = facts.encoded().decode()
    # Before the first request it is the system prompt that tells them, and that stays.
    return {_TOLD: encoded, _BEFORE: live.state.get(_TOLD, encoded)}


def with_message(facts: Facts) -> dict[str, Any]:
    """What is remembered with a later message of a turn."""
    return {_TOLD: facts.encoded().decode()}


def without_opening(state: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered when the input is taken back."""
    before = state.get(_BEFORE)
    return {**state, _TOLD: before} if before else dict(state)
