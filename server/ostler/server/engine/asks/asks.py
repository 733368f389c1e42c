"""The asks of a turn: opened, waited for, settled. The first to settle one in the database wins.

Also which choices an ask offers, and what an answer means: a rule to remember, a changed input, the end of the turn.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import anyio

from ostler.protocol import times
from ostler.protocol.ask import Accept, Allow, AllowAlways, Answer, Deny, DenyAlways, GiveAnswers
from ostler.protocol.ask import Scope as Reach
from ostler.protocol.errors import AskResolved, InvalidParams
from ostler.protocol.ids import AskId, new_ask_id
from ostler.protocol.shapes import Ask, AskedCall, AskKind, Call, Suggestion
from ostler.server.engine.asks.people import check_answers, check_form
from ostler.server.engine.journal.asks import Settlement
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.permissions.decide import Verdict
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.hooks import Outcome
from ostler.server.settings.types import Behavior
from ostler.storage import Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord
from ostler.tools.permissions import BadRule, parse_rule
from ostler.tools.tool import AnyTool

HOOK_PREFIX: Final = "hook: "
"""The prefix of `answered_by` where a hook answered."""
CLASSIFIER_PREFIX: Final = "classifier: "
"""The same where the classifier did; its model follows."""
_LATE_CHOICES: Final[dict[AskKind, str]] = {"trust": "restrict", "question": "decline", "plan": "reject"}
"""What counts as the answer where the time limit was over; elsewhere `deny`."""
AfterSettling = Callable[[Settlement], Awaitable[Settlement]]
"""Runs when an answer has won and before its call goes on, for example to write a rule."""
_SuggestedScope = Literal["session", "local"]


def _list_scopes(session: SessionRecord) -> tuple[_SuggestedScope, ...]:
    """The scopes of suggestions: allow rules in the settings of an untrusted folder have no effect."""
    return ("session", "local") if session.trusted else ("session",)


def _list_choices(verdict: Verdict) -> list[str]:
    """The choices of an ask: only those that would take effect."""
    if verdict.allow_with is not None:
        return ["allow", "allow_always", "deny", "deny_always"]
    # Ask rules and protected files ask again, whatever another rule allows; a deny rule takes effect.
    return ["allow", "deny", "deny_always"] if verdict.by in {"rule", "safety", "hook"} else ["allow", "deny"]


def build_permission_ask(
    call: Call,
    tool: AnyTool,
    verdict: Verdict,
    session: SessionRecord,
    expire_seconds: float | None,
    *,
    destructive: bool,
    bound_to: str | None,
) -> Ask:
    """The ask whether one call may run."""
    now = datetime.now(UTC)
    details, rule = verdict.ask, verdict.allow_with
    return Ask(
        id=new_ask_id(),
        session_id=session.id,
        root_id=session.root_id,
        turn_id=call.turn_id,
        kind="permission",
        status="open",
        call=AskedCall(call_id=call.call_id, tool=call.tool, input=call.input, summary=call.summary),
        message=details.message if details else f"May {tool.name} run this: {call.summary}",
        reason=verdict.reason or None,
        destructive=destructive,
        diff=details.diff if details else None,
        bound_to=bound_to,
        choices=_list_choices(verdict),
        suggestions=[Suggestion(rule=rule, scope=scope) for scope in _list_scopes(session)] if rule is not None else [],
        opened_at=times.format_time(now),
        expires_at=times.format_time(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )


@dataclass(slots=True)
class _PendingAsk:
    ask: Ask
    settling: bool = False
    """It is being settled."""
    settled: anyio.Event = field(default_factory=anyio.Event)


class TurnAsks:
    """The open asks of one turn, on which its calls wait."""

    def __init__(
        self, journal: Journal, state: TurnState, refresh_above: Callable[[], list[Callable[[Tx], None]]] = list
    ) -> None:
        self._journal = journal
        self._state = state
        self._refresh_above = refresh_above
        """Of an agent: how the turns above it are written that wait for the ask, too, or run again."""
        state.has_open_asks = self._has_unsettled
        self._waiting: dict[AskId, _PendingAsk] = {}
        self.leave_open = False
        """The daemon stops, or cannot write: asks stay open in the database, and are not cancelled."""

    @property
    def open(self) -> list[Ask]:
        return [one.ask for one in self._waiting.values()]

    async def ask(self, ask: Ask, call: Call | None = None, draft: Draft = (), *, queued: bool = True) -> Ask:
        """Open an ask, and wait until it is settled."""
        waiting = self._waiting[ask.id] = _PendingAsk(ask)
        turn = self._state.change(status="waiting")
        opened = self._journal.asks.open(ask, call, draft, turn, queued=queued, also=self._refresh_above())
        return await self._wait_until_settled(waiting, opened)

    def _has_unsettled(self) -> bool:
        return not all(one.settling for one in self._waiting.values())

    def expect(self, ask: Ask) -> None:
        """Register an ask from before a restart: it can be answered before its call waits for it again."""
        if ask.status == "open":
            self._waiting[ask.id] = _PendingAsk(ask)

    async def wait(self, ask: Ask) -> Ask:
        """Wait for an ask that was opened before; for a settled one this returns at once."""
        waiting = self._waiting.get(ask.id)
        return ask if waiting is None else await self._wait_until_settled(waiting, None)

    async def cancel_unclaimed(self) -> None:
        """Cancel the asks from before a restart that no call waits for, because its tool or its file is gone."""
        for waiting in list(self._waiting.values()):
            await self._settle(waiting.ask, "cancelled", None, "restart")
            self._waiting.pop(waiting.ask.id, None)

    async def resolve(
        self,
        ask: Ask,
        answer: Answer,
        by: str,
        trusted: TrustRecord | None = None,
        name: str | None = None,
        after_settling: AfterSettling | None = None,
    ) -> Settlement:
        """Settle an ask by an answer, of whomever; raises AskResolved where another one was first."""
        remember = find_remembered_rule(answer, ask)
        session_rule = (remember.behavior, remember.rule) if remember and remember.scope == "session" else None
        dumped = answer.model_dump(mode="json", exclude_none=True)
        settled = await self._settle(ask, "resolved", dumped, by, session_rule, trusted, name, after_settling)
        if not settled.won:
            raise build_resolved_error(settled.ask)
        return settled

    async def _wait_until_settled(self, waiting: _PendingAsk, opened: Awaitable[None] | None) -> Ask:
        try:
            if opened is not None:
                await opened
            with anyio.move_on_after(_compute_seconds_left(waiting.ask)):
                await waiting.settled.wait()
                return waiting.ask
            refusal = {"choice": _LATE_CHOICES.get(waiting.ask.kind, "deny")}
            return (await self._settle(waiting.ask, "expired", refusal, "time limit")).ask
        except anyio.get_cancelled_exc_class():
            # Interrupted: an ask that no call waits for must not be answered.
            if not self.leave_open:
                with anyio.CancelScope(shield=True):
                    await self._settle(waiting.ask, "cancelled", None, "interrupt")
            raise
        finally:
            self._waiting.pop(waiting.ask.id, None)

    async def _settle(
        self,
        ask: Ask,
        status: str,
        answer: dict[str, Any] | None,
        by: str,
        remember: tuple[Behavior, str] | None = None,
        trusted: TrustRecord | None = None,
        name: str | None = None,
        after_settling: AfterSettling | None = None,
    ) -> Settlement:
        facts = {"answered_by": by, "answered_by_name": name, "answered_at": times.now()}
        ended = ask.changed(status=status, answer=answer, **facts)
        waiting = self._waiting.get(ask.id)
        if waiting is not None:
            # Before the write: of two asks that are answered at the same time, the later answer lets the turn run.
            waiting.settling = True
        waits = self._has_unsettled() or self._state.waits_for_agents_ask()
        if self._state.turn.status == "waiting" and not waits:
            self._state.change(status="running")
        also = self._refresh_above()
        settled = await self._journal.asks.settle(ended, self._state.turn, remember, trusted, also)
        try:
            if after_settling is not None and settled.won:
                # The client may have disconnected by now: its answer counts all the same.
                with anyio.CancelScope(shield=True):
                    settled = await after_settling(settled)
        finally:
            waiting = self._waiting.get(ask.id)
            if waiting is not None:
                waiting.ask = settled.ask
                waiting.settled.set()
        return settled


def build_resolved_error(ask: Ask) -> AskResolved:
    who = f" by {ask.answered_by_name or ask.answered_by}" if ask.answered_by else ""
    return AskResolved(
        f"The ask {ask.id} was {'answered' if ask.status == 'resolved' else ask.status}{who} already.",
        ask=ask.model_dump(mode="json"),
    )


def check_answer(ask: Ask, answer: Answer) -> None:
    """Check that this ask allows the answer. Raises InvalidParams."""
    if answer.choice not in ask.choices:
        raise InvalidParams.of("answer.choice", f"is {answer.choice!r}, and this ask takes {', '.join(ask.choices)}")
    if isinstance(answer, GiveAnswers):
        check_answers(ask.questions or (), answer)
    if isinstance(answer, Accept) and ask.schema_ is not None:
        check_form(ask.schema_, answer)
    find_remembered_rule(answer, ask)


@dataclass(frozen=True, slots=True)
class RememberedRule:
    """A rule that an answer adds, and its scope."""

    behavior: Behavior
    rule: str
    scope: Reach


def find_remembered_rule(answer: Answer, ask: Ask) -> RememberedRule | None:
    match answer:
        case AllowAlways():
            behavior: Behavior = "allow"
        case DenyAlways():
            behavior = "deny"
        case _:
            return None
    text = answer.rule or (ask.suggestions[0].rule if ask.suggestions else None)
    if text is None:
        raise InvalidParams.of("answer.rule", "is missing, and this ask suggests none: say which rule to remember")
    try:
        parse_rule(text)
    except BadRule as error:
        raise InvalidParams.of("answer.rule", error.message) from None
    return RememberedRule(behavior, text, answer.scope)


def build_hook_answer(outcome: Outcome) -> Answer | None:
    """A hook's decision about an ask, as an answer; None where it decided nothing."""
    match outcome.decision:
        case "allow":
            return Allow(input=dict(outcome.changed_input) if outcome.changed_input is not None else None)
        case "deny":
            return Deny(message=outcome.reason or "A hook said no.", interrupt=outcome.interrupt)
        case _:
            return None


def ends_turn(answer: Deny | DenyAlways) -> bool:
    return answer.interrupt if answer.interrupt is not None else not has_words(answer)


def has_words(answer: Deny | DenyAlways) -> bool:
    """Whether it has a message for the model that is not blank."""
    return bool((answer.message or "").strip())


def get_changed_input(answer: Answer) -> dict[str, Any] | None:
    return answer.input if isinstance(answer, Allow) else None


def _compute_seconds_left(ask: Ask) -> float:
    if ask.expires_at is None:
        return float("inf")
    return max(0.0, (datetime.fromisoformat(ask.expires_at) - datetime.now(UTC)).total_seconds())
