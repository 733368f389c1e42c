"""The facts about the environment (folder, mode, git) that were last sent to the model, and their updates.

They are stored with the message that carries them, in one unit of work: what the model has not got counts as not sent.
"""

from collections.abc import Mapping
from typing import Any, Final

from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.todos.reminders import build_input_told_state, revert_told_state
from ostler.server.prompt.environment import EnvironmentFacts, GitState, read_facts, update_facts

_SENT_KEY: Final = "facts"
_PREVIOUS_KEY: Final = "facts_before_opening"
"""The facts sent before the input of the last turn: a hook may withdraw that input, and its facts with it."""


async def read_session_facts(live: LiveSession) -> EnvironmentFacts:
    """All facts as they are now, read from the disk."""
    return await read_facts(live.view.folder, live.directories, live.mode, plan_file=_get_plan_file(live))


def load_sent_facts(live: LiveSession) -> EnvironmentFacts | None:
    """The facts as they were last sent to the model; null before the first request."""
    stored = live.state.get(_SENT_KEY)
    return EnvironmentFacts.from_json(stored.encode()) if stored else None


def update_session_facts(live: LiveSession, sent: EnvironmentFacts, git: GitState | None) -> EnvironmentFacts:
    """The facts in the middle of a turn: what is in memory, and git as it was last read."""
    return update_facts(sent, live.view.folder, live.directories, live.mode, git, _get_plan_file(live))


def _get_plan_file(live: LiveSession) -> str | None:
    return live.view.plan_file if live.mode == "plan" else None


def build_input_state(live: LiveSession, facts: EnvironmentFacts) -> dict[str, Any]:
    """The session state to store with the input of a turn."""
    encoded = facts.to_json().decode()
    # Before the first request it is the system prompt that carries them, and a withdrawn input leaves that as it is.
    return {
        _SENT_KEY: encoded,
        _PREVIOUS_KEY: live.state.get(_SENT_KEY, encoded),
        **build_input_told_state(live),
    }


def build_message_state(facts: EnvironmentFacts) -> dict[str, Any]:
    """The session state to store with a later message of a turn."""
    return {_SENT_KEY: facts.to_json().decode()}


def revert_input_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The session state to store when the input of a turn is withdrawn."""
    before = state.get(_PREVIOUS_KEY)
    reverted = revert_told_state(state)
    return {**reverted, _SENT_KEY: before} if before else reverted
