"""A reader of the log, and the events that it has received over all its connections."""

import hashlib
import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.daemon import Daemon, EventStream

SILENT_SECONDS: Final = 10.0
"""Less than the time between two comments of a quiet stream: an event that has not come by then never will."""
_LIVE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as it came; its bytes are the same whether it came live or was replayed."""

    kind: str
    session_id: str | None
    digest: bytes


@dataclass(slots=True, eq=False)
class EventReader:
    """A reader that resumes where it was whenever it connects."""

    session_id: str | None = None
    """None: it follows everything."""
    after: int = 0
    """Where it began."""
    last: int = 0
    seen: dict[int, SeenEvent] = field(default_factory=dict)
    gone: bool = False
    """The session that it follows was deleted."""
    lagged: int = 0
    problems: list[str] = field(default_factory=list)

    def follow(self, daemon: Daemon, until: int | None = None) -> None:
        """Read until the stream ends, or until a cursor has been reached."""
        try:
            stream = self._connect(daemon, _LIVE_SECONDS if until is None else SILENT_SECONDS)
        except (OSError, http.client.HTTPException):
            return
        with stream:
            if stream.status == 404:
                self.gone = True
                return
            if stream.status != 200:
                self.problems.append(f"/events answered {stream.status}")
                return
            self.read(stream, lambda: until is not None and self.last >= until)

    def read(self, stream: EventStream, enough: Callable[[], bool]) -> None:
        if enough():
            return
        for event in stream.read_events():
            self.record(event)
            if enough():
                return

    def record(self, event: dict[str, Any]) -> None:
        cursor = event["cursor"]
        if cursor is None:
            self._record_transient(event)
            return
        if cursor <= self.last:
            self.problems.append(f"cursor {cursor} came after {self.last}")
        self.last = cursor
        text = repr((event["type"], event["time"], event["data"]))
        self.seen[cursor] = SeenEvent(event["type"], event["session_id"], hashlib.sha256(text.encode()).digest())

    def find_missing(self, log: dict[int, SeenEvent]) -> list[int]:
        """Events of the log, or of its session, that this reader has not received, or with other content."""
        expected = {
            cursor: seen
            for cursor, seen in log.items()
            if self.after < cursor <= self.last and self.session_id in (None, seen.session_id)
        }
        return [cursor for cursor, seen in expected.items() if self.seen.get(cursor) != seen]

    def find_vanished(self, log: dict[int, SeenEvent]) -> list[int]:
        """Events that this reader received and that are not in the log, though their session was not deleted."""
        deleted = {seen.session_id for seen in log.values() if seen.kind == "session.deleted"}
        return [
            cursor
            for cursor, seen in self.seen.items()
            if cursor not in log and (seen.kind == "session.deleted" or seen.session_id not in deleted)
        ]

    def _connect(self, daemon: Daemon, timeout: float) -> EventStream:
        query = f"?session={self.session_id}" if self.session_id else ""
        return daemon.follow(query, {"Last-Event-ID": str(max(self.last, self.after))}, timeout)

    def _record_transient(self, event: dict[str, Any]) -> None:
        if event["type"] == "stream.reset":
            self.problems.append(f"the stream was reset after cursor {self.last}: {event['data']['reason']}")
        if event["type"] == "stream.lagged":
            self.lagged += 1
            resume = event["data"]["cursor"]
            # A reader of one session may be sent past events of other sessions, never back.
            if resume < self.last or (self.session_id is None and resume > max(self.last, self.after)):
                self.problems.append(f"told to go on from {resume}, but {self.last} was the last that came")
