"""The log as it is at the end, and what readers and writers were told, held against it."""

from collections.abc import Iterable

from tests.faults.caller import Caller
from tests.faults.journal import SILENT_SECONDS, Journal, Seen
from tests.faults.ledger import Ledger, State
from tests.faults.rows import Findings
from tests.support.daemon import Daemon


def whole_log(daemon: Daemon, caller: Caller, findings: Findings) -> tuple[dict[int, Seen], dict[str, State]]:
    """Everything from the start in one replay: the lines, and the sessions that they add up to."""
    head = int(caller.call("server/stats")["cursor"])
    whole = Journal()
    states: dict[str, State] = {}
    with daemon.follow("?after=0", timeout=SILENT_SECONDS) as stream:
        for event in stream.events():
            whole.note(event)
            if event["type"] == "session.deleted":
                states.pop(event["session_id"], None)
            elif event["type"].startswith("session."):
                states[event["session_id"]] = State.of(event["data"]["session"])
            if whole.last >= head:
                break
    for problem in whole.problems:
        findings.expect(False, f"replay from the start: {problem}")
    return whole.seen, states


def compare(journal: Journal, log: dict[int, Seen], findings: Findings) -> None:
    """A reader's streams, put together, are the log: no gap, no double, nothing that was taken back."""
    name = f"reader of {journal.session_id or 'everything'}"
    for problem in journal.problems:
        findings.expect(False, f"{name}: {problem}")
    findings.expect(not (missing := journal.missing(log)), f"{name} missed cursors {missing[:10]}")
    findings.expect(not (lost := journal.vanished(log)), f"{name} saw {lost[:10]}, which the log does not have")


def compare_cursors(ledgers: Iterable[Ledger], log: dict[int, Seen], findings: Findings) -> None:
    """Every acknowledged change has a line of its own in the log, unless its session was deleted since."""
    given: dict[int, str] = {}
    for ledger in ledgers:
        for cursor, session_id in ledger.cursors:
            findings.expect(cursor not in given, f"cursor {cursor} was given to two changes")
            given[cursor] = session_id
            if cursor in log:
                findings.expect(log[cursor].session_id == session_id, f"cursor {cursor} is not of {session_id}")
            else:
                findings.expect(session_id not in ledger.states, f"{session_id} has lost its line {cursor}")


class Canon:
    """Every cursor that any reader ever saw, so that one that is given twice is noticed."""

    def __init__(self, findings: Findings) -> None:
        self.seen: dict[int, Seen] = {}
        self.last = 0
        self._findings = findings

    def add(self, journal: Journal, after: int = 0) -> None:
        for cursor, seen in journal.seen.items():
            if cursor > after:
                known = self.seen.setdefault(cursor, seen)
                self._findings.expect(known == seen, f"cursor {cursor} was {known.kind} and then {seen.kind}")
                self.last = max(self.last, cursor)
