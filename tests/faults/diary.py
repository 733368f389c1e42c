"""What one person was told is done in the sessions that they own, and the one thing that they were not told about."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.caller import Caller, Lost, Refused

# What may be said to somebody who is a moment too late.
_TOO_LATE: Final = {"turn_running", "no_turn_running", "ask_resolved", "conflict"}


@dataclass(slots=True)
class Kept:
    """A session as it has to be found again."""

    name: str
    id: str
    said: list[str] = field(default_factory=list)
    """Words that were acknowledged: each has to be in the history once."""
    maybe_said: set[str] = field(default_factory=set)
    """Words whose acknowledgement was lost: there once, or not at all."""
    turns: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """Choices that were acknowledged, by ask."""


@dataclass(frozen=True, slots=True)
class _Pending:
    method: str
    params: dict[str, Any]
    words: str | None


@dataclass(slots=True)
class Diary:
    sessions: list[Kept] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """Acknowledged calls, by method."""
    lost: int = 0
    _pending: _Pending | None = None

    @property
    def session(self) -> Kept:
        return self.sessions[-1]

    def create(self, caller: Caller, name: str, **options: Any) -> None:
        params = {"title": name, "idempotency_key": name, **options}
        self._made(caller, _Pending("session/create", params, name))

    def start(self, caller: Caller, words: str, *, queue: bool = False) -> None:
        key = words.rpartition(" ")[2]
        params = {"session_id": self.session.id, "input": words, "queue": queue, "idempotency_key": key}
        self._made(caller, _Pending("turn/start", params, words))

    def steer(self, caller: Caller, turn_id: str, words: str, *, now: bool) -> None:
        self._made(caller, _Pending("turn/steer", {"turn_id": turn_id, "input": words, "now": now}, words))

    def answer(self, caller: Caller, ask_id: str, answer: dict[str, Any]) -> None:
        self._made(caller, _Pending("ask/resolve", {"ask_id": ask_id, "answer": answer}, None))

    def settle_ask(self, caller: Caller, ask_id: str) -> None:
        """A yes in any session of this person's, at the end, when nothing is lost any more."""
        pending = _Pending("ask/resolve", {"ask_id": ask_id, "answer": {"choice": "allow"}}, None)
        try:
            caller.call(pending.method, **pending.params)
        except Refused as refused:
            self._refused(pending, refused, again=False)

    def interrupt(self, caller: Caller, turn_id: str) -> None:
        self._made(caller, _Pending("turn/interrupt", {"turn_id": turn_id}, None))

    def settle(self, caller: Caller) -> None:
        """After a crash: what has a key is asked for again, and done once; of the rest both ways are right."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        self.lost += 1
        if "idempotency_key" in pending.params:
            self._made(caller, pending, again=True)
        elif pending.words is not None:
            self.session.maybe_said.add(pending.words)

    def _made(self, caller: Caller, pending: _Pending, *, again: bool = False) -> None:
        self._pending = pending
        try:
            answer = caller.call(pending.method, **pending.params)
        except Lost:
            raise
        except Refused as refused:
            self._pending = None
            self._refused(pending, refused, again=again)
            return
        self._pending = None
        self.done[pending.method] += 1
        self._enter(pending, answer)

    def _refused(self, pending: _Pending, refused: Refused, *, again: bool) -> None:
        if refused.word not in _TOO_LATE or "was open already" in str(refused):
            self.problems.append(f"{pending.method} {pending.params} was refused: {refused.word} {refused}")
        if again and pending.words is not None and pending.method != "session/create":
            # It had not been done the first time, and now it comes too late.
            self.session.maybe_said.discard(pending.words)

    def _enter(self, pending: _Pending, answer: dict[str, Any]) -> None:
        match pending.method:
            case "session/create":
                self.sessions.append(Kept(str(pending.words), str(answer["id"])))
            case "turn/start":
                self.session.turns.append(str(answer["id"]))
                self.session.said.append(str(pending.words))
            case "turn/steer":
                self.session.said.append(str(pending.words))
            case "ask/resolve":
                self.session.answers[str(pending.params["ask_id"])] = str(pending.params["answer"]["choice"])
            case _:
                pass
