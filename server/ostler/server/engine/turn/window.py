"""The window of a turn's model: looked at before every request, and made room in where it is nearly full."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.errors import Conflict, ModelFailed
from ostler.protocol.events import Notice
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.compaction.compactor import (
    CompactionBlocked,
    CompactionFailed,
    CompactionWish,
    Compactor,
    NothingToCompact,
)
from ostler.server.engine.compaction.summary import RequestHead, find_room
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.environment_updates import load_sent_facts, read_session_facts
from ostler.server.engine.turn.options import TurnServices
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.retry_policy import RetryPolicy, describe_failure
from ostler.server.engine.turn.setup import TurnSetup
from ostler.server.models.provider import ModelFailure

_NAMED: Final = frozenset({"code", "message"})
"""What an error of the wire has anyway."""
_LEAST_OUTPUT: Final = 2_000
_GROWTH: Final = 1.05
"""A history that nothing could be taken out of is looked at again when it has grown so much."""


def make_compactor(
    session: LiveSession, services: TurnServices, prefix: Prefix, model: str, extras: Mapping[str, Any]
) -> Compactor:
    """That of a session, for requests to this model."""
    takes_extras = services.provider(model).takes_extras(model)
    head = RequestHead(
        model,
        prefix.system,
        prefix.tools_with_extras if takes_extras else prefix.tools,
        extras,
        prefix.count_tokens(with_extras=takes_extras),
        prefix.deferred if takes_extras else frozenset(),
    )
    policy = RetryPolicy(services.config().model)
    return Compactor(session, services, head, policy.plan_same, load_sent_facts)


async def compact_between_turns(
    live: LiveSession, services: TurnServices, setup: TurnSetup, instructions: str | None
) -> None:
    """Summarise the conversation because somebody has asked for it. Raises Conflict and ModelFailed."""
    await services.credentials.refresh()
    settings = setup.build_settings(TurnOptions(input="."), None)
    facts = load_sent_facts(live) or await read_session_facts(live)
    _, prefix, _ = await setup.build_tools_and_prompt(settings, facts)
    thinking = live.record.options.get("thinking")
    extras = {"thinking": thinking} if thinking else {}
    compactor = make_compactor(live, services, prefix, settings.model, extras)
    try:
        await compactor.compact(CompactionWish("manual", instructions), clear_first=False)
    except CompactionFailed as failed:
        raise Conflict(str(failed), session_id=live.record.id) from None
    except ModelFailure as failure:
        described = describe_failure(failure)
        raise ModelFailed(failure.message, **{k: v for k, v in described.items() if k not in _NAMED}) from None


@dataclass(slots=True)
class TurnWindow:
    """That of one turn."""

    session: LiveSession
    services: TurnServices
    prefix: Prefix
    state: TurnState
    notes: Sequence[str] = ()
    """What must survive beside what always does: the form that the answer shall have."""
    _blocked: bool = False
    """A hook does not want this turn's conversation to be compacted."""
    _hopeless_at: int = 0
    """The size of a history that nothing could be taken out of."""
    _recovered: bool = False
    """The request that is being made was too long once, and was made shorter."""

    async def make_room(self, model: str, extras: Mapping[str, Any]) -> None:
        """Before a request: compact where the window is nearly full. Raises ModelFailure where that has failed.

        A turn that is stopped meanwhile leaves everything as it was.
        """
        self._recovered = False
        history = self.session.history
        full = self.session.context.full
        if self._blocked or history.ends_with_assistant:
            return
        if not full and history.tokens <= self._hopeless_at * _GROWTH:
            return
        compactor = make_compactor(self.session, self.services, self.prefix, model, extras)
        if not compactor.is_full():
            return
        try:
            await self._compact(compactor, clear_first=not full)
        except NothingToCompact as nothing:
            if full:
                self.session.context.full = False  # the next turn tries it, with whatever has changed
                raise ModelFailure("too_long", f"The conversation has filled the model's window. {nothing}") from None
            self._hopeless_at = history.tokens  # the request itself says whether it still fits
        except CompactionBlocked as blocked:
            self._blocked = True
            self.session.journal.add_notice(self.state.turn.id, Notice(level="warning", text=str(blocked)))
        except CompactionFailed as failed:
            raise ModelFailure("too_long", str(failed)) from None

    def limit_output(self, model: str, prefix_tokens: int, most: int, extras: Mapping[str, Any]) -> int:
        """How long an answer may be: no longer than what is left of the window, as far as that is known."""
        used = self.session.context.measure(prefix_tokens, self.session.history.tokens).tokens
        thinking = extras.get("thinking")
        # The API wants thoughts to take less than the whole answer.
        thoughts = int(thinking.get("budget_tokens", 0)) if isinstance(thinking, dict) else 0
        return min(most, max(_LEAST_OUTPUT + thoughts, find_room(self.services.window(model), used)))

    async def recover(self, model: str, extras: Mapping[str, Any], failure: ModelFailure) -> bool:
        """After a request that was too long: true where it is worth while to make it again, which is done once."""
        if failure.kind != "too_long" or self._recovered or self._blocked or self.session.history.ends_with_assistant:
            return False
        self._recovered = True
        compactor = make_compactor(self.session, self.services, self.prefix, model, extras)
        try:
            await self._compact(compactor, clear_first=False)
        except CompactionFailed as failed:
            failure.message = f"{failure.message.rstrip('.')}. {failed}"
            return False
        return not self.state.request_stop.cancel_called

    async def _compact(self, compactor: Compactor, *, clear_first: bool) -> None:
        wish = CompactionWish("auto", notes=self.notes, turn_id=self.state.turn.id)
        with self.state.request_stop.scope():
            await compactor.compact(wish, clear_first=clear_first)
