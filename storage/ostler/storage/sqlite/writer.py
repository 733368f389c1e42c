"""The one writer: a thread that commits all units of work that were queued since the last commit (group commit).

A commit costs an fsync, whatever it contains. While one is under way new units of work queue up, and the next
commit takes them together; so a hundred callers cost as many fsyncs as one, and no caller gets its result
before the data is on the disk.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from ostler.protocol.errors import Overloaded, ReadOnly, ShuttingDown, StorageFailed
from ostler.storage.commit_progress import CommitProgress
from ostler.storage.errors import describe, is_damage, is_disk_trouble
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite.check import mark_damaged
from ostler.storage.sqlite.database import WAL_BYTES, OpenedDatabase
from ostler.storage.transaction import Tx

T = TypeVar("T")
Work = Callable[[Tx], T]
"""A unit of work. It acts through its transaction alone: where another unit of the batch fails, it is run again."""
OnCommit = Callable[[list[LoggedEvent]], None]
"""Called on the event loop with what a unit appended, or with nothing when it failed."""

_MAX_BATCH: Final = 512
_PROBE_SECONDS: Final = 2.0
_FLUSH_DELAY_SECONDS: Final = 0.01
"""How long units that nobody waits for are held, so that they share the commit of one that somebody waits for."""
_MAX_DELIVERED_BYTES: Final = 1024 * 1024
"""Bytes of events that are delivered before the event loop gets to run other callbacks."""
_STOP: Final = None


@dataclass(slots=True)
class _UnitOfWork:
    work: Work[Any]
    on_commit: OnCommit
    future: asyncio.Future[Any]
    progress: CommitProgress | None = None
    appended: list[LoggedEvent] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class WriterCounts:
    commits: int = 0
    units: int = 0
    failures: int = 0


class Writer:
    """Runs units of work in order, on its own thread, and completes their futures when they are on the disk."""

    def __init__(self, opened: OpenedDatabase, path: Path, *, pending_limit: int) -> None:
        self.counts = WriterCounts()
        self.read_only: str | None = None
        """Why nothing is written any more, or None."""
        self._connection = opened.connection
        self._tx = Tx(opened.connection, opened.head)
        self._head = opened.head
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._pending_limit = pending_limit
        self._pending = 0
        self._damaged = False
        self._closing = False
        self._outbox: list[_UnitOfWork | None] = []
        """Units not yet handed to the thread: waking it costs more than most units do."""
        self._urgent_flush: asyncio.Handle | None = None
        self._delayed_flush: asyncio.Handle | None = None
        self._undelivered: deque[_UnitOfWork] = deque()
        """Units that are committed or failed, but of which only their CommitProgress knows so far."""
        self._inbox: queue.SimpleQueue[list[_UnitOfWork | None]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="ostler-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        return self._pending

    def submit(
        self, work: Work[T], on_commit: OnCommit, *, urgent: bool = True, progress: CommitProgress | None = None
    ) -> asyncio.Future[T]:
        """Queue a unit of work; its future is done when it is committed or failed, and its events are delivered.

        A unit that is not urgent is committed with the next urgent one, or by itself a moment later.
        """
        self.check_writable()
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending += 1
        self._outbox.append(_UnitOfWork(work, on_commit, future, progress))
        if urgent:
            # After the current callbacks of the loop: a thread that wakes now would only wait for the GIL.
            self._urgent_flush = self._urgent_flush or self._loop.call_soon(self._flush_outbox)
        else:
            self._delayed_flush = self._delayed_flush or self._loop.call_later(_FLUSH_DELAY_SECONDS, self._flush_outbox)
        return future

    def is_last(self, future: "asyncio.Future[Any]") -> bool:
        """Whether this unit is the newest and not handed to the thread yet, so that more work can be added to it."""
        last = self._outbox[-1] if self._outbox else None
        return last is not None and last.future is future

    def _flush_outbox(self) -> None:
        for handle in filter(None, (self._urgent_flush, self._delayed_flush)):
            handle.cancel()
        self._urgent_flush = self._delayed_flush = None
        units, self._outbox = self._outbox, []
        if units:
            self._inbox.put(units)

    def check_writable(self) -> None:
        """Raise the error with which a unit of work would be refused now."""
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        if self.read_only is not None:
            raise ReadOnly(f"The daemon is read-only: {self.read_only}", reason=self.read_only)
        if self._pending >= self._pending_limit:
            raise Overloaded(f"{self._pending} writes wait for the disk already.", retry_after_ms=250)

    def turn_read_only(self, damage: str) -> None:
        """Turn read-only for good: the database is damaged."""
        self._damaged = True
        self.read_only = (
            f"the database is damaged ({damage}); export what you need, then restart: it will be moved aside"
        )

    def report_damage(self, damage: str) -> None:
        """A read or a write met damage: turn read-only, and mark the file as the check after an unclean stop does."""
        if not self._damaged:
            self.turn_read_only(damage)
            with contextlib.suppress(OSError):  # a disk this bad may not even take the marker
                mark_damaged(self._path, damage)

    async def close(self) -> None:
        """Write what is queued, checkpoint the write-ahead log, and close the file."""
        if not self._closing:
            self._closing = True
            self._outbox.append(_STOP)
            self._flush_outbox()
        await asyncio.to_thread(self._thread.join)
        while self._undelivered:
            self._deliver_pending()

    # On the writer's thread from here on.

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch = self._next_batch()
            stopping = _STOP in batch
            units = [unit for unit in batch if unit is not None]
            if units:
                self._commit(units)
            elif not stopping:
                self._probe()
            self._checkpoint_if_due()
        self._close_connection()

    def _next_batch(self) -> list[_UnitOfWork | None]:
        """All queued units, about `_MAX_BATCH` at most; empty after a timeout, while the disk is in trouble."""
        try:
            batch = self._inbox.get(timeout=_PROBE_SECONDS if self.read_only else None)
        except queue.Empty:
            return []
        while len(batch) < _MAX_BATCH and batch[-1] is not _STOP:
            try:
                batch += self._inbox.get_nowait()
            except queue.Empty:
                break
        return batch

    def _commit(self, units: list[_UnitOfWork]) -> None:
        tx = self._tx
        tx.begin(self._head)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if not self._run_together(tx, units):
                self._connection.execute("ROLLBACK")
                tx.begin(self._head)
                self._connection.execute("BEGIN IMMEDIATE")
                for unit in units:
                    self._run_apart(tx, unit)
            tx.write_lines()
            if progress := [unit.progress for unit in units if unit.progress is not None]:
                self._loop.call_soon_threadsafe(_mark_executed, progress)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._fail_batch(units, error)
        else:
            self._head = tx.head
            self.counts.commits += 1
            self.counts.units += len(units)
        self._loop.call_soon_threadsafe(self._deliver, units)

    def _run_together(self, tx: Tx, units: list[_UnitOfWork]) -> bool:
        """Run all units without savepoints, which nearly always works, and takes a third less time than with them."""
        try:
            for unit in units:
                tx.appended = unit.appended
                unit.result = unit.work(tx)
            stamp = tx.stamp()
            for unit in units:
                unit.result = stamp.apply(unit.result)
        except BaseException as error:  # which unit raised it is found out when each runs apart
            if is_disk_trouble(error):
                raise
            for unit in units:
                unit.appended.clear()
                unit.result = None
            return False
        return True

    def _run_apart(self, tx: Tx, unit: _UnitOfWork) -> None:
        """Run a unit in a savepoint: if it fails, the rest of its batch is kept. It may have run before: see `Work`."""
        head, lines, tx.appended = tx.head, list(tx.unwritten), unit.appended
        self._connection.execute("SAVEPOINT unit")
        try:
            result = unit.work(tx)
            unit.result = tx.stamp().apply(result)
        except BaseException as error:  # whatever a unit raises is its caller's, and this thread goes on
            if is_disk_trouble(error):
                raise
            self._connection.execute("ROLLBACK TO unit")
            tx.head, tx.unwritten = head, lines
            tx.forget_unstamped()
            unit.appended.clear()
            unit.error = _build_unit_error(error)
        self._connection.execute("RELEASE unit")

    def _fail_batch(self, units: list[_UnitOfWork], error: sqlite3.Error) -> None:
        """The commit failed: nothing of the batch was written, so every unit gets the error."""
        reason = describe(error)
        self.counts.failures += 1
        if is_damage(error):
            self.report_damage(reason)
        elif not self._damaged:
            self.read_only = reason
        self._roll_back()
        for unit in units:
            unit.appended.clear()
            unit.error = StorageFailed(f"The database could not be written: {reason}", reason=reason)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the disk may refuse even that; the next probe finds out
                self._connection.execute("ROLLBACK")

    def _probe(self) -> None:
        """Find out whether the disk takes writes again."""
        if self._damaged:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            # A whole page and more, so that a disk with a few bytes left does not look healed.
            self._connection.execute(
                "INSERT OR REPLACE INTO meta (key, value) VALUES ('probe', hex(randomblob(32768)))"
            )
            self._connection.execute("COMMIT")
            self._connection.execute("DELETE FROM meta WHERE key = 'probe'")
        except sqlite3.Error as error:
            self._roll_back()
            reason: str | None = describe(error)
        else:
            reason = None
        if not self._damaged:  # damage may have been found meanwhile, on another thread
            self.read_only = reason

    def _checkpoint_if_due(self) -> None:
        try:
            if self._wal.stat().st_size > WAL_BYTES:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (OSError, sqlite3.Error):
            # The next commit meets the same trouble and reports it to somebody who can act on it.
            return

    def _close_connection(self) -> None:
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass  # the write-ahead log stays, and is replayed at the next start
        finally:
            self._connection.close()

    # On the event loop again.

    def _deliver(self, units: list[_UnitOfWork]) -> None:
        self._undelivered += units
        awaited = [unit for unit in units if unit.progress is not None]
        for unit in awaited:
            assert unit.progress is not None
            unit.progress.mark_durable(unit.error)
        if awaited:
            self._loop.call_soon(self._deliver_pending)  # after the waiters that were just woken
        else:
            self._deliver_pending()

    def _deliver_pending(self) -> None:
        delivered = 0
        while self._undelivered:
            if delivered > _MAX_DELIVERED_BYTES:
                self._loop.call_soon(
                    self._deliver_pending
                )  # other callbacks of the loop run before the rest is delivered
                return
            delivered += self._deliver_one(self._undelivered.popleft())

    def _deliver_one(self, unit: _UnitOfWork) -> int:
        """Publish the events of a unit and complete its future; returns how many bytes of events there were."""
        self._pending -= 1
        try:
            # Before the caller goes on: whoever has the answer finds the event in the log and on the wire.
            unit.on_commit(unit.appended)
        except Exception as error:  # noqa: BLE001 - a bug in publishing fails this unit alone, not the others
            unit.error = error
        if not unit.future.done():  # the caller was not cancelled meanwhile
            if unit.error is not None:
                unit.future.set_exception(unit.error)
            else:
                unit.future.set_result(unit.result)
        return sum(len(event.data) for event in unit.appended)


def _build_unit_error(error: BaseException) -> Exception:
    """What the caller of a unit gets for what it raised."""
    if isinstance(error, sqlite3.Error):
        reason = describe(error)
        failed = StorageFailed(f"The database refused a write: {reason}", reason=reason)
        failed.__cause__ = error
        return failed
    return error if isinstance(error, Exception) else RuntimeError(f"a unit of work raised {error!r}")


def _mark_executed(progress: Iterable[CommitProgress]) -> None:
    for each in progress:
        each.mark_executed()
