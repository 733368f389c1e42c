"""What one writer was told is done, and the one thing that it was not told about."""

from dataclasses import dataclass, field
from typing import Any

from tests.faults.caller import Caller, Refused


@dataclass(frozen=True, slots=True)
class State:
    """As much of a session as the load changes."""

    title: str | None
    number: int
    archived: bool

    @classmethod
    def of(cls, session: dict[str, Any]) -> "State":
        return cls(session["title"], session["metadata"]["number"], session["status"] == "archived")


@dataclass(frozen=True, slots=True)
class Change:
    """A call that changes something, and what is there when it is done."""

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

    def make(self, caller: Caller, change: Change) -> None:
        """Make a change; it stays pending when no answer comes, and is forgotten when the daemon refuses it."""
        self.pending = change
        try:
            answer = caller.call(change.method, **change.params)
        except Refused:
            self.pending = None
            raise
        self.pending = None
        self.acknowledged += 1
        self._enter(change, answer)

    def settle(self, caller: Caller) -> None:
        """After a crash: find out what became of the change that was pending; both ways are right."""
        change, self.pending = self.pending, None
        if change is None:
            return
        if change.creates:
            self._create_again(caller, change)
        else:
            self._look_what_became(caller, change)

    def _enter(self, change: Change, answer: dict[str, Any]) -> None:
        session_id = str(answer["session_ids"][0] if change.after is None else answer["id"])
        if change.after is None:
            del self.states[session_id]
            return
        if State.of(answer) != change.after:
            self.problems.append(f"{change.method} {session_id} was answered with {State.of(answer)}")
        self.states[session_id] = change.after
        self.cursors.append((int(answer["cursor"]), session_id))

    def _create_again(self, caller: Caller, change: Change) -> None:
        first, second = (caller.call(change.method, **change.params) for _ in range(2))
        if first != second:
            self.problems.append(f"{change.method} with the same key gave {first['id']} and {second['id']}")
        self._enter(change, first)

    def _look_what_became(self, caller: Caller, change: Change) -> None:
        session_id = str(change.params["session_id"])
        before = self.states.pop(session_id)
        found = look(caller, session_id)
        if found not in (before, change.after):
            self.problems.append(f"{change.method} {session_id}: {before} became {found}, asked was {change.after}")
        if found is not None:
            self.states[session_id] = found


def look(caller: Caller, session_id: str) -> State | None:
    """A session as it is stored; None where there is none."""
    try:
        return State.of(caller.call("session/get", session_id=session_id))
    except Refused as refused:
        if refused.word != "session_not_found":
            raise
        return None


def stored_states(caller: Caller) -> dict[str, State]:
    """Every session that there is."""
    found: dict[str, State] = {}
    page: str | None = None
    while True:
        answer = caller.call("session/list", archived=None, limit=500, page=page)
        found |= {session["id"]: State.of(session) for session in answer["sessions"]}
        page = answer["next"]
        if page is None:
            return found
