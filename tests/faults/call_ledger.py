"""The acknowledged calls of one person in the sessions that they own, and the one call that has no answer yet."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.caller import Caller, CallRefused, ConnectionLost

# Errors that a call may be refused with when it comes too late.
_TOO_LATE_CODES: Final = {"turn_running", "no_turn_running", "ask_resolved", "conflict"}


@dataclass(slots=True)
class ExpectedSession:
    """What a session has to contain after a crash."""

    name: str
    id: str
    inputs: list[str] = field(default_factory=list)
    """Inputs that were acknowledged: each has to be in the history once."""
    uncertain_inputs: set[str] = field(default_factory=set)
    """Inputs whose acknowledgement was lost: each is there once, or not at all."""
    turn_ids: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """Choices that were acknowledged, by ask."""


@dataclass(frozen=True, slots=True)
class _PendingCall:
    method: str
    params: dict[str, Any]
    text: str | None


@dataclass(slots=True)
class CallLedger:
    sessions: list[ExpectedSession] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    call_counts: Counter[str] = field(default_factory=Counter)
    """Acknowledged calls, by method."""
    lost_calls: int = 0
    _pending: _PendingCall | None = None

    @property
    def current_session(self) -> ExpectedSession:
        return self.sessions[-1]

    def create_session(self, caller: Caller, name: str, **options: Any) -> None:
        params = {"title": name, "idempotency_key": name, **options}
        self._make_call(caller, _PendingCall("session/create", params, name))

    def start_turn(self, caller: Caller, text: str, *, queue: bool = False) -> None:
        key = text.rpartition(" ")[2]
        params = {"session_id": self.current_session.id, "input": text, "queue": queue, "idempotency_key": key}
        self._make_call(caller, _PendingCall("turn/start", params, text))

    def steer_turn(self, caller: Caller, turn_id: str, text: str, *, now: bool) -> None:
        self._make_call(caller, _PendingCall("turn/steer", {"turn_id": turn_id, "input": text, "now": now}, text))

    def answer_ask(self, caller: Caller, ask_id: str, answer: dict[str, Any]) -> None:
        self._make_call(caller, _PendingCall("ask/resolve", {"ask_id": ask_id, "answer": answer}, None))

    def allow_ask(self, caller: Caller, ask_id: str) -> None:
        """Allow an ask in any session of this person, at the end, when no call is lost any more."""
        pending = _PendingCall("ask/resolve", {"ask_id": ask_id, "answer": {"choice": "allow"}}, None)
        try:
            caller.call(pending.method, **pending.params)
        except CallRefused as refused:
            self._record_refusal(pending, refused, again=False)

    def interrupt_turn(self, caller: Caller, turn_id: str) -> None:
        self._make_call(caller, _PendingCall("turn/interrupt", {"turn_id": turn_id}, None))

    def settle_pending(self, caller: Caller) -> None:
        """After a crash: a call with an idempotency key is sent again, and done once; others may be done or not."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        self.lost_calls += 1
        if "idempotency_key" in pending.params:
            self._make_call(caller, pending, again=True)
        elif pending.text is not None:
            self.current_session.uncertain_inputs.add(pending.text)

    def _make_call(self, caller: Caller, pending: _PendingCall, *, again: bool = False) -> None:
        self._pending = pending
        try:
            answer = caller.call(pending.method, **pending.params)
        except ConnectionLost:
            raise
        except CallRefused as refused:
            self._pending = None
            self._record_refusal(pending, refused, again=again)
            return
        self._pending = None
        self.call_counts[pending.method] += 1
        self._record_answer(pending, answer)

    def _record_refusal(self, pending: _PendingCall, refused: CallRefused, *, again: bool) -> None:
        if refused.code not in _TOO_LATE_CODES or "was open already" in str(refused):
            self.problems.append(f"{pending.method} {pending.params} was refused: {refused.code} {refused}")
        if again and pending.text is not None and pending.method != "session/create":
            # It had not been done the first time, and now it comes too late.
            self.current_session.uncertain_inputs.discard(pending.text)

    def _record_answer(self, pending: _PendingCall, answer: dict[str, Any]) -> None:
        match pending.method:
            case "session/create":
                self.sessions.append(ExpectedSession(str(pending.text), str(answer["id"])))
            case "turn/start":
                self.current_session.turn_ids.append(str(answer["id"]))
                self.current_session.inputs.append(str(pending.text))
            case "turn/steer":
                self.current_session.inputs.append(str(pending.text))
            case "ask/resolve":
                self.current_session.answers[str(pending.params["ask_id"])] = str(pending.params["answer"]["choice"])
            case _:
                pass
