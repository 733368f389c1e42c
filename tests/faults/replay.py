"""Compares what readers received and writers were answered with the log as it is at the end."""

from collections.abc import Iterable

from tests.faults.caller import Caller
from tests.faults.event_reader import SILENT_SECONDS, EventReader, SeenEvent
from tests.faults.ledger import Ledger, State
from tests.faults.rows import Findings
from tests.support.daemon import Daemon


def read_whole_log(daemon: Daemon, caller: Caller, findings: Findings) -> tuple[dict[int, SeenEvent], dict[str, State]]:
    """Replay the log from the start: its events, and the sessions that they add up to."""
    head = int(caller.call("server/stats")["cursor"])
    reader = EventReader()
    states: dict[str, State] = {}
    with daemon.follow("?after=0", timeout=SILENT_SECONDS) as stream:
        for event in stream.read_events():
            reader.record(event)
            if event["type"] == "session.deleted":
                states.pop(event["session_id"], None)
            elif event["type"].startswith("session."):
                states[event["session_id"]] = State.from_session(event["data"]["session"])
            if reader.last >= head:
                break
    for problem in reader.problems:
        findings.expect(False, f"replay from the start: {problem}")
    return reader.seen, states


def compare_reader(reader: EventReader, log: dict[int, SeenEvent], findings: Findings) -> None:
    """A reader's streams, joined, are the log: no gap, no event twice, none that is not stored."""
    name = f"reader of {reader.session_id or 'everything'}"
    for problem in reader.problems:
        findings.expect(False, f"{name}: {problem}")
    findings.expect(not (missing := reader.find_missing(log)), f"{name} missed cursors {missing[:10]}")
    findings.expect(not (lost := reader.find_vanished(log)), f"{name} saw {lost[:10]}, which the log does not have")


def compare_cursors(ledgers: Iterable[Ledger], log: dict[int, SeenEvent], findings: Findings) -> None:
    """Every acknowledged change has an event of its own in the log, unless its session was deleted since."""
    session_ids: dict[int, str] = {}
    for ledger in ledgers:
        for cursor, session_id in ledger.cursors:
            findings.expect(cursor not in session_ids, f"cursor {cursor} was given to two changes")
            session_ids[cursor] = session_id
            if cursor in log:
                findings.expect(log[cursor].session_id == session_id, f"cursor {cursor} is not of {session_id}")
            else:
                findings.expect(session_id not in ledger.states, f"{session_id} has lost its line {cursor}")


class SeenCursors:
    """Every cursor that any reader received, so that one that is used for two events is noticed."""

    def __init__(self, findings: Findings) -> None:
        self.seen: dict[int, SeenEvent] = {}
        self.last = 0
        self._findings = findings

    def add(self, reader: EventReader, after: int = 0) -> None:
        for cursor, seen in reader.seen.items():
            if cursor > after:
                known = self.seen.setdefault(cursor, seen)
                self._findings.expect(known == seen, f"cursor {cursor} was {known.kind} and then {seen.kind}")
                self.last = max(self.last, cursor)
