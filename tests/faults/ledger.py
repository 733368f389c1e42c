"""The acknowledged changes of one writer, and the one change that has no answer yet."""

from dataclasses import dataclass, field
from typing import Any

from tests.faults.caller import Caller, CallRefused


@dataclass(frozen=True, slots=True)
class State:
    """As much of a session as the load changes."""

    title: str | None
    number: int
    archived: bool

    @classmethod
    def from_session(cls, session: dict[str, Any]) -> "State":
        return cls(session["title"], session["metadata"]["number"], session["status"] == "archived")


@dataclass(frozen=True, slots=True)
class Change:
    """A call that changes a session, and the state of the session after it."""

    method: str
    params: dict[str, Any]
    after: State | None
    """None: the session is gone."""

    @property
    def creates(self) -> bool:
        return "idempotency_key" in self.params


@dataclass(slots=True)
class Ledger:
    """The acknowledged state of each session that one writer owns."""

    states: dict[str, State] = field(default_factory=dict)
    pending: Change | None = None
    """Sent, and not answered."""
    cursors: list[tuple[int, str]] = field(default_factory=list)
    """Where in the log the acknowledged changes are, and of which session."""
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)

    def make_change(self, caller: Caller, change: Change) -> None:
        """Make a change; it stays pending when no answer comes, and is dropped when the daemon refuses it."""
        self.pending = change
        try:
            answer = caller.call(change.method, **change.params)
        except CallRefused:
            self.pending = None
            raise
        self.pending = None
        self.acknowledged += 1
        self._record_answer(change, answer)

    def settle_pending(self, caller: Caller) -> None:
        """After a crash: find out whether the pending change was done; both outcomes are right."""
        change, self.pending = self.pending, None
        if change is None:
            return
        if change.creates:
            self._create_again(caller, change)
        else:
            self._check_outcome(caller, change)

    def _record_answer(self, change: Change, answer: dict[str, Any]) -> None:
        session_id = str(answer["session_ids"][0] if change.after is None else answer["id"])
        if change.after is None:
            del self.states[session_id]
            return
        if State.from_session(answer) != change.after:
            self.problems.append(f"{change.method} {session_id} was answered with {State.from_session(answer)}")
        self.states[session_id] = change.after
        self.cursors.append((int(answer["cursor"]), session_id))

    def _create_again(self, caller: Caller, change: Change) -> None:
        first, second = (caller.call(change.method, **change.params) for _ in range(2))
        if first != second:
            self.problems.append(f"{change.method} with the same key gave {first['id']} and {second['id']}")
        self._record_answer(change, first)

    def _check_outcome(self, caller: Caller, change: Change) -> None:
        session_id = str(change.params["session_id"])
        before = self.states.pop(session_id)
        state = get_state(caller, session_id)
        if state not in (before, change.after):
            self.problems.append(f"{change.method} {session_id}: {before} became {state}, asked was {change.after}")
        if state is not None:
            self.states[session_id] = state


def get_state(caller: Caller, session_id: str) -> State | None:
    """A session as it is stored; None where there is none."""
    try:
        return State.from_session(caller.call("session/get", session_id=session_id))
    except CallRefused as refused:
        if refused.code != "session_not_found":
            raise
        return None


def list_stored_states(caller: Caller) -> dict[str, State]:
    """Every session that there is."""
    states: dict[str, State] = {}
    page: str | None = None
    while True:
        answer = caller.call("session/list", archived=None, limit=500, page=page)
        states |= {session["id"]: State.from_session(session) for session in answer["sessions"]}
        page = answer["next"]
        if page is None:
            return states
