"""The one writer: a thread that commits whatever has come in since the last commit, all at once.

A commit costs an fsync, whatever it contains. While one is under way new units of work queue up, and the next
commit takes them together; so a hundred callers cost as many fsyncs as one, and nobody is told "done" before
the disk has said so.
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
from ostler.storage.commit_progress import Ahead
from ostler.storage.errors import describe, is_damage, is_disk_trouble
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite.check import mark_damaged
from ostler.storage.sqlite.database import WAL_BYTES, Opened
from ostler.storage.transaction import Tx

T = TypeVar("T")
Work = Callable[[Tx], T]
"""A unit of work. What it does, it does through its transaction alone: where a neighbour fails it is run again."""
OnCommit = Callable[[list[LoggedEvent]], None]
"""Called on the event loop with what a unit appended, or with nothing when it failed."""

_BATCH: Final = 512
_PROBE_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 0.01
"""How long units that nobody waits for are held, so that they share the commit of one that somebody waits for."""
_TOLD_AT_ONCE: Final = 1024 * 1024
"""Bytes of events that are told before the event loop has a turn."""
_STOP: Final = None


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    on_commit: OnCommit
    future: asyncio.Future[Any]
    ahead: Ahead | None = None
    appended: list[LoggedEvent] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class WriterCounts:
    commits: int = 0
    units: int = 0
    failures: int = 0


class Writer:
    """Runs units of work on its own thread, in the order given, and tells when each is on the disk."""

    def __init__(self, opened: Opened, path: Path, *, pending_limit: int) -> None:
        self.counts = WriterCounts()
        self.read_only: str | None = None
        """Why nothing is written any more, or None."""
        self._connection = opened.connection
        self._head = opened.head
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._pending_limit = pending_limit
        self._pending = 0
        self._damaged = False
        self._closing = False
        self._outbox: list[_Job | None] = []
        """What the thread has not been given yet: waking it costs more than most units do."""
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.Handle | None = None
        self._untold: deque[_Job] = deque()
        """Units that are on the disk, or cannot be, and of which only those ahead have heard."""
        self._jobs: queue.SimpleQueue[list[_Job | None]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="ostler-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        return self._pending

    def submit(
        self, work: Work[T], on_commit: OnCommit, *, urgent: bool = True, ahead: Ahead | None = None
    ) -> asyncio.Future[T]:
        """Queue a unit of work; its future is done when the disk has it, or cannot have it, and all was told.

        One that is not urgent, since nobody waits for it, goes with the next that is, or by itself a moment later.
        """
        self.refuse_if_unable()
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending += 1
        self._outbox.append(_Job(work, on_commit, future, ahead))
        if urgent:
            # When the loop has done what it is at: a thread that wakes now would only wait for the interpreter's lock.
            self._soon = self._soon or self._loop.call_soon(self._send)
        else:
            self._later = self._later or self._loop.call_later(_PATIENCE_SECONDS, self._send)
        return future

    def is_last(self, future: "asyncio.Future[Any]") -> bool:
        """Whether this unit is the newest, and waits here still: what it does can be added to."""
        last = self._outbox[-1] if self._outbox else None
        return last is not None and last.future is future

    def _send(self) -> None:
        for handle in filter(None, (self._soon, self._later)):
            handle.cancel()
        self._soon = self._later = None
        jobs, self._outbox = self._outbox, []
        if jobs:
            self._jobs.put(jobs)

    def refuse_if_unable(self) -> None:
        """Raise what a unit of work would be refused with now."""
        if self._closing:
            raise ShuttingDown("The daemon is stopping.")
        if self.read_only is not None:
            raise ReadOnly(f"The daemon is read-only: {self.read_only}", reason=self.read_only)
        if self._pending >= self._pending_limit:
            raise Overloaded(f"{self._pending} writes wait for the disk already.", retry_after_ms=250)

    def give_up(self, damage: str) -> None:
        """Turn read-only for good: the database is damaged."""
        self._damaged = True
        self.read_only = (
            f"the database is damaged ({damage}); export what you need, then restart: it will be moved aside"
        )

    def found_damage(self, damage: str) -> None:
        """A read or a write met what the check after an unclean stop looks for: the same follows from it."""
        if not self._damaged:
            self.give_up(damage)
            with contextlib.suppress(OSError):  # a disk this bad may not even take the marker
                mark_damaged(self._path, damage)

    async def close(self) -> None:
        """Write what is queued, fold the log into the database, and let go of the file."""
        if not self._closing:
            self._closing = True
            self._outbox.append(_STOP)
            self._send()
        await asyncio.to_thread(self._thread.join)
        while self._untold:
            self._tell()

    # On the writer's thread from here on.

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch = self._next_batch()
            stopping = _STOP in batch
            jobs = [job for job in batch if job is not None]
            if jobs:
                self._commit(jobs)
            elif not stopping:
                self._probe()
            self._checkpoint_if_due()
        self._let_go()

    def _next_batch(self) -> list[_Job | None]:
        """Everything that waits, about _BATCH at most; nothing after a while, when the disk is in trouble."""
        try:
            batch = self._jobs.get(timeout=_PROBE_SECONDS if self.read_only else None)
        except queue.Empty:
            return []
        while len(batch) < _BATCH and batch[-1] is not _STOP:
            try:
                batch += self._jobs.get_nowait()
            except queue.Empty:
                break
        return batch

    def _commit(self, jobs: list[_Job]) -> None:
        tx = Tx(self._connection, self._head)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if not self._run_together(tx, jobs):
                self._connection.execute("ROLLBACK")
                tx = Tx(self._connection, self._head)
                self._connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    self._run_apart(tx, job)
            tx.write_lines()
            if ahead := [job.ahead for job in jobs if job.ahead is not None]:
                self._loop.call_soon_threadsafe(_tell_run, ahead)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._fail(jobs, error)
        else:
            self._head = tx.head
            self.counts.commits += 1
            self.counts.units += len(jobs)
        self._loop.call_soon_threadsafe(self._deliver, jobs)

    def _run_together(self, tx: Tx, jobs: list[_Job]) -> bool:
        """All units as one, which nearly always works, and takes a third less time than each in a frame of its own."""
        try:
            for job in jobs:
                tx.appended = job.appended
                job.result = job.work(tx)
        except BaseException as error:  # whose it is, is found out when each runs apart
            if is_disk_trouble(error):
                raise
            for job in jobs:
                job.appended.clear()
                job.result = None
            return False
        return True

    def _run_apart(self, tx: Tx, job: _Job) -> None:
        """A unit that fails takes nothing of its neighbours along. It may have been tried before: see `Work`."""
        head, lines, tx.appended = tx.head, list(tx.unwritten), job.appended
        self._connection.execute("SAVEPOINT unit")
        try:
            job.result = job.work(tx)
        except BaseException as error:  # whatever a unit raises is its caller's, and this thread goes on
            if is_disk_trouble(error):
                raise
            self._connection.execute("ROLLBACK TO unit")
            tx.head, tx.unwritten = head, lines
            job.appended.clear()
            job.error = error if isinstance(error, Exception) else RuntimeError(f"a unit of work raised {error!r}")
        self._connection.execute("RELEASE unit")

    def _fail(self, jobs: list[_Job], error: sqlite3.Error) -> None:
        """Nothing of the batch was written, whatever each unit thought."""
        reason = describe(error)
        self.counts.failures += 1
        if is_damage(error):
            self.found_damage(reason)
        elif not self._damaged:
            self.read_only = reason
        self._roll_back()
        for job in jobs:
            job.appended.clear()
            job.error = StorageFailed(f"The database could not be written: {reason}", reason=reason)

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
        if not self._damaged:  # as may have been found meanwhile, on another thread
            self.read_only = reason

    def _checkpoint_if_due(self) -> None:
        try:
            if self._wal.stat().st_size > WAL_BYTES:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (OSError, sqlite3.Error):
            # The next commit meets the same trouble and reports it to somebody who can act on it.
            return

    def _let_go(self) -> None:
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass  # the write-ahead log stays, and is replayed at the next start
        finally:
            self._connection.close()

    # On the event loop again.

    def _deliver(self, jobs: list[_Job]) -> None:
        self._untold += jobs
        ahead = [job for job in jobs if job.ahead is not None]
        for job in ahead:
            assert job.ahead is not None
            job.ahead.is_written(job.error)
        if ahead:
            self._loop.call_soon(self._tell)  # behind those that were just woken
        else:
            self._tell()

    def _tell(self) -> None:
        told = 0
        while self._untold:
            if told > _TOLD_AT_ONCE:
                self._loop.call_soon(self._tell)  # whoever waits for the loop has his turn before the rest
                return
            told += self._tell_one(self._untold.popleft())

    def _tell_one(self, job: _Job) -> int:
        """Returns how many bytes of events there were to tell."""
        self._pending -= 1
        try:
            # Before the caller goes on: whoever has the answer finds the event in the log and on the wire.
            job.on_commit(job.appended)
        except Exception as error:  # noqa: BLE001 - a bug in telling it is this caller's alone, not its neighbours'
            job.error = error
        if not job.future.done():  # the caller was not cancelled meanwhile
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        return sum(len(event.data) for event in job.appended)


def _tell_run(ahead: Iterable[Ahead]) -> None:
    for each in ahead:
        each.has_run()
