"""Writes calls: that they are queued, that they start, and how they ended."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ostler.protocol import times
from ostler.protocol.brief import Brief
from ostler.protocol.events import FileChange, GitChange
from ostler.protocol.ids import ResultId
from ostler.protocol.shapes import Call
from ostler.server.engine.journal.session_view import store_session
from ostler.server.engine.journal.writer import WriteQueue
from ostler.storage import Tx
from ostler.storage.repositories import drafts
from ostler.storage.repositories.results import ResultRecord
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.sqlite import long_json

Draft = Sequence[drafts.Block]
"""The blocks of the message in progress that are complete and not stored yet."""

_AS_QUEUED: Final[dict[str, Any]] = {
    "status": "queued",
    "started_at": None,
    "decision": None,
    "is_error": False,
    "error_code": None,
    "output": None,
    "content": None,
    "result_id": None,
    "duration_ms": None,
}
"""The fields of a queued call, for a `tool.queued` that is written together with later events of the call."""


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that is completed, with everything that is stored with it."""

    call: Call
    reads: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    files: Sequence[FileChange] = ()
    git: GitChange | None = None
    whole_result: str | ResultRecord | None = None
    """The full text of a result that was too long for the model, stored under the call's `result_id`.

    For a very long one only its record: its pieces are stored already.
    """
    messages: Sequence[Sequence[dict[str, Any]]] = ()
    """Further user messages that it gave: they are kept with it until they follow its result in the history."""
    message_results: Sequence[tuple[ResultId, str]] = ()
    """The full texts of those that were too long."""
    session_change: Callable[[SessionRecord], SessionRecord] | None = None
    """What it changes of the session: a call that is over for good has changed it for good."""
    brief: Brief | None = None
    """A message that it sent to the people."""
    sent_files: Sequence[ResultRecord] = ()
    """Files that went with it, whose pieces are stored already."""


@dataclass(slots=True)
class _StartedCall:
    """A call that starts to run; with its end, where it ends before the start is written."""

    call: Call
    draft: Draft
    queued: bool
    """Its `tool.queued` is in the log already."""
    ended: CompletedCall | None = None


@dataclass(slots=True)
class CallJournal:
    """Writes the calls of a session."""

    writes: WriteQueue
    _latest: "tuple[_StartedCall, asyncio.Future[None]] | None" = None
    """The call that started last."""

    def queue(self, call: Call, draft: Draft, unusable: str | None = None) -> None:
        def work(tx: Tx) -> None:
            self.put(tx, call, draft, ("tool.queued",))
            if unusable is not None:
                tx.calls.mark_unusable(call.call_id, unusable)

        self.writes.post(work)

    def start(self, call: Call, draft: Draft, *, queued: bool, urgent: bool) -> "asyncio.Future[None]":
        """Before it runs: write the new blocks of the message draft and the call's start together."""
        start = _StartedCall(call, draft, queued)
        stored = self.writes.submit(lambda tx: self._put_start(tx, start), urgent=urgent)
        self._latest = (start, stored)
        return stored

    def _put_start(self, tx: Tx, start: "_StartedCall") -> None:
        kinds = ("tool.started",) if start.queued else ("tool.queued", "tool.started")
        if start.ended is None:
            self.put(tx, start.call, start.draft, kinds)
            return
        tx.drafts.extend(self.writes.session_id, start.draft)
        encoded = tx.calls.put(start.ended.call)
        self._append_call_events(tx, start.call, long_json.encode(start.call), kinds)
        self.put_end(tx, start.ended, encoded)

    def put(self, tx: Tx, call: Call, draft: Draft, kinds: Sequence[str]) -> bytes:
        tx.drafts.extend(self.writes.session_id, draft)
        encoded = tx.calls.put(call)
        self._append_call_events(tx, call, encoded, kinds)
        return encoded

    def _append_call_events(self, tx: Tx, call: Call, encoded: bytes, kinds: Sequence[str]) -> None:
        for kind in kinds:
            shape = call.changed(**_AS_QUEUED) if kind == "tool.queued" else encoded
            tx.append(kind, self.writes.scope(call.turn_id), reference=call.call_id, thing=shape)

    def end(self, ended: CompletedCall, draft: Draft, *, queued: bool) -> None:
        """Written together with its start, where that is still queued and nothing came after: the row is put once."""
        if self._latest is not None:
            start, stored = self._latest
            self._latest = None
            if start.call.call_id == ended.call.call_id and self.writes.log.is_last(stored, self.writes.root_id):
                start.ended, start.draft = ended, [*start.draft, *draft]
                return

        def work(tx: Tx) -> None:
            encoded = self.put(tx, ended.call, draft, () if queued else ("tool.queued",))
            self.put_end(tx, ended, encoded)

        self.writes.post(work)

    def put_end(self, tx: Tx, ended: CompletedCall, encoded: bytes) -> None:
        call = ended.call
        if isinstance(ended.whole_result, ResultRecord):
            tx.results.add(self.writes.session_id, ended.whole_result)
        elif ended.whole_result is not None and call.result_id is not None:
            tx.results.put(call.result_id, self.writes.session_id, ended.whole_result, tool=call.tool)
        for result_id, whole in ended.message_results:
            tx.results.put(result_id, self.writes.session_id, whole, tool=call.tool)
        if ended.messages:
            tx.calls.put_messages(call.call_id, ended.messages)
        for path, read in ended.reads.items():
            tx.states.put_read(self.writes.session_id, path, read)
        tx.append("tool.completed", self.writes.scope(call.turn_id), reference=call.call_id, thing=encoded)
        for change in ended.files:
            tx.append("file.changed", self.writes.scope(call.turn_id), data=change)
        if ended.git is not None:
            tx.append("git.changed", self.writes.scope(call.turn_id), data=ended.git)
        for file in ended.sent_files:
            tx.results.add(self.writes.session_id, file)
        if ended.brief is not None:
            tx.append("brief.sent", self.writes.scope(call.turn_id), data=ended.brief)
        if ended.session_change is not None:
            record = ended.session_change(tx.sessions.get(self.writes.session_id))
            store_session(tx, replace(record, updated_at=times.now()), self.writes.used)

    def keep_as_queued(self, call: Call) -> None:
        self.writes.post(lambda tx: tx.calls.keep_as_queued(call))
