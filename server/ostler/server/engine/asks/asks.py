"""The asks of a turn: opened, waited for, settled. Whoever settles one first, in the database, has settled it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import anyio

from ostler.protocol import times
from ostler.protocol.ask import Allow, AllowAlways, Answer, Deny, DenyAlways
from ostler.protocol.ask import Scope as Reach
from ostler.protocol.errors import AskResolved, InvalidParams
from ostler.protocol.ids import AskId, new_ask_id
from ostler.protocol.shapes import Ask, AskedCall, Call, Suggestion
from ostler.server.engine.journal.asks import Settled
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.journal.journal import Journal
from ostler.server.engine.permissions.decide import Verdict
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.hooks import Outcome
from ostler.server.settings.types import Behavior
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord
from ostler.tools.permissions import BadRule, parse_rule
from ostler.tools.tool import AnyTool

HOOK: Final = "hook: "
"""How the name of whoever answered begins, where it was a hook."""
Then = Callable[[Settled], Awaitable[Settled]]
"""What an answer brings with it, done when it has won and before its call goes on."""
_Suggested = Literal["session", "local"]


def _scopes(session: SessionRecord) -> tuple[_Suggested, ...]:
    """How far a suggestion may reach: in a folder that nobody trusts, what its settings allow does not count."""
    return ("session", "local") if session.trusted else ("session",)


def _choices(verdict: Verdict) -> list[str]:
    """What can be answered: nothing is offered that would not hold."""
    if verdict.helps is not None:
        return ["allow", "allow_always", "deny", "deny_always"]
    # A rule that asks and a guarded file ask again, whatever another rule allows; what forbids holds.
    return ["allow", "deny", "deny_always"] if verdict.by in {"rule", "safety", "hook"} else ["allow", "deny"]


def permission_ask(
    call: Call,
    tool: AnyTool,
    verdict: Verdict,
    session: SessionRecord,
    expire_seconds: float | None,
    *,
    destructive: bool,
    bound_to: str | None,
) -> Ask:
    """The question about one call."""
    now = datetime.now(UTC)
    words, rule = verdict.ask, verdict.helps
    return Ask(
        id=new_ask_id(),
        session_id=session.id,
        root_id=session.root_id,
        turn_id=call.turn_id,
        kind="permission",
        status="open",
        call=AskedCall(call_id=call.call_id, tool=call.tool, input=call.input, summary=call.summary),
        message=words.message if words else f"May {tool.name} run this: {call.summary}",
        reason=verdict.reason or None,
        destructive=destructive,
        diff=words.diff if words else None,
        bound_to=bound_to,
        choices=_choices(verdict),
        suggestions=[Suggestion(rule=rule, scope=scope) for scope in _scopes(session)] if rule is not None else [],
        opened_at=times.at(now),
        expires_at=times.at(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )


@dataclass(slots=True)
class _Waiting:
    ask: Ask
    settling: bool = False
    """Somebody is giving it its ending."""
    settled: anyio.Event = field(default_factory=anyio.Event)


class AskDesk:
    """Where the calls of one turn wait for the people."""

    def __init__(self, journal: Journal, state: TurnState) -> None:
        self._journal = journal
        self._state = state
        self._waiting: dict[AskId, _Waiting] = {}
        self.leave_open = False
        """The daemon stops, or cannot write: asks outlive it, and are not cancelled."""

    @property
    def open(self) -> list[Ask]:
        return [one.ask for one in self._waiting.values()]

    async def ask(self, ask: Ask, call: Call | None = None, draft: Draft = (), *, queued: bool = True) -> Ask:
        """Put the question, and wait until it is settled."""
        waiting = self._waiting[ask.id] = _Waiting(ask)
        opened = self._journal.open_ask(ask, call, draft, self._state.change(status="waiting"), queued=queued)
        return await self._settlement(waiting, opened)

    def expect(self, ask: Ask) -> None:
        """An ask from before a restart can be answered before its call has come back to it."""
        if ask.status == "open":
            self._waiting[ask.id] = _Waiting(ask)

    async def wait(self, ask: Ask) -> Ask:
        """Wait for an ask that was put before; an answered one is settled at once."""
        waiting = self._waiting.get(ask.id)
        return ask if waiting is None else await self._settlement(waiting, None)

    async def cancel_unheard(self) -> None:
        """End the asks that no call came back to, because its tool or its file is gone."""
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
        then: Then | None = None,
    ) -> Settled:
        """A person's answer, or a hook's; raises where another one was first."""
        remember = rule_to_remember(answer, ask)
        of_the_session = (remember.behavior, remember.rule) if remember and remember.scope == "session" else None
        given = answer.model_dump(mode="json", exclude_none=True)
        settled = await self._settle(ask, "resolved", given, by, of_the_session, trusted, name, then)
        if not settled.won:
            raise already(settled.ask)
        return settled

    async def _settlement(self, waiting: _Waiting, opened: Awaitable[None] | None) -> Ask:
        try:
            if opened is not None:
                await opened
            with anyio.move_on_after(_seconds_left(waiting.ask)):
                await waiting.settled.wait()
                return waiting.ask
            no = {"choice": "restrict" if waiting.ask.kind == "trust" else "deny"}
            return (await self._settle(waiting.ask, "expired", no, "time limit")).ask
        except anyio.get_cancelled_exc_class():
            # Stopped by an interrupt: nobody shall answer what nobody waits for.
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
        then: Then | None = None,
    ) -> Settled:
        facts = {"answered_by": by, "answered_by_name": name, "answered_at": times.now()}
        ended = ask.changed(status=status, answer=answer, **facts)
        waiting = self._waiting.get(ask.id)
        if waiting is not None:
            # Before the wait: of two asks that are answered in one moment, the later answer lets the turn run.
            waiting.settling = True
        if self._state.turn.status == "waiting" and all(one.settling for one in self._waiting.values()):
            self._state.change(status="running")
        settled = await self._journal.settle_ask(ended, self._state.turn, remember, trusted)
        try:
            if then is not None and settled.won:
                # Whoever answered may be gone by now: what they said counts all the same.
                with anyio.CancelScope(shield=True):
                    settled = await then(settled)
        finally:
            waiting = self._waiting.get(ask.id)
            if waiting is not None:
                waiting.ask = settled.ask
                waiting.settled.set()
        return settled


def already(ask: Ask) -> AskResolved:
    who = f" by {ask.answered_by_name or ask.answered_by}" if ask.answered_by else ""
    return AskResolved(
        f"The ask {ask.id} was {'answered' if ask.status == 'resolved' else ask.status}{who} already.",
        ask=ask.model_dump(mode="json"),
    )


def check_answer(ask: Ask, answer: Answer) -> None:
    """Whether an answer is one that this ask allows."""
    if answer.choice not in ask.choices:
        raise InvalidParams.of("answer.choice", f"is {answer.choice!r}, and this ask takes {', '.join(ask.choices)}")
    rule_to_remember(answer, ask)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A rule that an answer brings, and how far it reaches."""

    behavior: Behavior
    rule: str
    scope: Reach


def rule_to_remember(answer: Answer, ask: Ask) -> Remembered | None:
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
    return Remembered(behavior, text, answer.scope)


def answer_of(outcome: Outcome) -> Answer | None:
    """A hook's decision about an ask, as the answer that a person could have given."""
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
    """Whether there is something in it for the model: blanks say as little as nothing."""
    return bool((answer.message or "").strip())


def changed_input(answer: Answer) -> dict[str, Any] | None:
    return answer.input if isinstance(answer, Allow) else None


def _seconds_left(ask: Ask) -> float:
    if ask.expires_at is None:
        return float("inf")
    return max(0.0, (datetime.fromisoformat(ask.expires_at) - datetime.now(UTC)).total_seconds())
