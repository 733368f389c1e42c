"""What is written about calls: that they are queued, that they begin, and what became of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ostler.protocol.events import FileChange, GitChange
from ostler.protocol.shapes import Call
from ostler.server.engine.journal.writer import Units
from ostler.storage import Tx
from ostler.storage.repositories import calls, drafts, results, states
from ostler.storage.repositories.results import ResultRecord
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
"""A call as it was when it was queued, where that is told together with what came next."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that is over, with all that its end changes."""

    call: Call
    reads: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    files: Sequence[FileChange] = ()
    git: GitChange | None = None
    whole_result: str | ResultRecord | None = None
    """The text that was too long to be given to the model, stored under the call's `result_id`.

    Of a very long one only what is known of it: its pieces are stored already.
    """


@dataclass(slots=True)
class _Start:
    """A call that begins to run; where it is over before that is written, with its end."""

    call: Call
    draft: Draft
    queued: bool
    """The log says already that it was queued."""
    ended: Ended | None = None


@dataclass(slots=True)
class CallNotes(Units):
    _latest: "tuple[_Start, asyncio.Future[None]] | None" = None
    """The call that started last."""

    def call_queued(self, call: Call, draft: Draft, unusable: str | None = None) -> None:
        def work(tx: Tx) -> None:
            self.put_call(tx, call, draft, ("tool.queued",))
            if unusable is not None:
                calls.keep_unusable(tx.connection, call.call_id, unusable)

        self.post(work)

    def call_started(self, call: Call, draft: Draft, *, queued: bool, urgent: bool) -> "asyncio.Future[None]":
        """Before it runs: the message as far as it has come and the call's start, together."""
        start = _Start(call, draft, queued)
        stored = self.submit(lambda tx: self._start(tx, start), urgent=urgent)
        self._latest = (start, stored)
        return stored

    def _start(self, tx: Tx, start: "_Start") -> None:
        kinds = ("tool.started",) if start.queued else ("tool.queued", "tool.started")
        if start.ended is None:
            self.put_call(tx, start.call, start.draft, kinds)
            return
        drafts.extend(tx.connection, self.session_id, start.draft)
        encoded = calls.put(tx.connection, start.ended.call)
        self._tell_call(tx, start.call, long_json.encoded(start.call), kinds)
        self.complete_call(tx, start.ended, encoded)

    def put_call(self, tx: Tx, call: Call, draft: Draft, kinds: Sequence[str]) -> bytes:
        drafts.extend(tx.connection, self.session_id, draft)
        encoded = calls.put(tx.connection, call)
        self._tell_call(tx, call, encoded, kinds)
        return encoded

    def _tell_call(self, tx: Tx, call: Call, encoded: bytes, kinds: Sequence[str]) -> None:
        for kind in kinds:
            told = call.changed(**_AS_QUEUED) if kind == "tool.queued" else encoded
            tx.append(kind, self.scope(call.turn_id), reference=call.call_id, thing=told)

    def call_completed(self, ended: Ended, draft: Draft, *, queued: bool) -> None:
        """Together with its start, where nothing came between and that has not been written: the row is put once."""
        if self._latest is not None:
            start, stored = self._latest
            self._latest = None
            if start.call.call_id == ended.call.call_id and self.log.is_last(stored, self.root_id):
                start.ended, start.draft = ended, [*start.draft, *draft]
                return

        def work(tx: Tx) -> None:
            encoded = self.put_call(tx, ended.call, draft, () if queued else ("tool.queued",))
            self.complete_call(tx, ended, encoded)

        self.post(work)

    def complete_call(self, tx: Tx, ended: Ended, encoded: bytes) -> None:
        call = ended.call
        if isinstance(ended.whole_result, ResultRecord):
            results.add(tx.connection, self.session_id, ended.whole_result)
        elif ended.whole_result is not None and call.result_id is not None:
            results.put(tx.connection, call.result_id, self.session_id, ended.whole_result, tool=call.tool)
        for path, read in ended.reads.items():
            states.put_read(tx.connection, self.session_id, path, read)
        tx.append("tool.completed", self.scope(call.turn_id), reference=call.call_id, thing=encoded)
        for change in ended.files:
            tx.append("file.changed", self.scope(call.turn_id), data=change)
        if ended.git is not None:
            tx.append("git.changed", self.scope(call.turn_id), data=ended.git)

    def keep_as_queued(self, call: Call) -> None:
        self.post(lambda tx: calls.keep_as_queued(tx.connection, call))
