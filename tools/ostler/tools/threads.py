"""Blocking work, beside the event loop and in bounds.

Most of it is short: one thread does ten small reads sooner than ten threads that wait for the interpreter's lock. Where
something takes long, a dead network mount or a large file, further threads join, so that nobody waits behind it.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_PATIENCE_SECONDS: Final = 0.01
"""How long work waits before another thread joins."""
_IDLE_SECONDS: Final = 30.0
_LATER_SECONDS: Final = 0.1


class _Job:
    __slots__ = ("arguments", "future", "loop", "taken", "work")

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.work = work
        self.arguments = arguments
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.taken = False

    def run(self) -> None:
        self.taken = True
        result: Any = None
        error: BaseException | None = None
        try:
            result = self.work(*self.arguments)
        except BaseException as raised:  # noqa: BLE001 - it is the caller's, whatever it is
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._deliver, result, error)

    def _deliver(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():  # the caller was cancelled meanwhile
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Workers:
    """Threads that take work in turn: one, and more while that is not enough."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        job = _Job(work, arguments)
        self._jobs.put(job)
        if not self._threads:
            self._join()
        else:
            job.loop.call_later(_PATIENCE_SECONDS, self._help, job)
        return job.future

    def _help(self, job: _Job) -> None:
        if not job.taken:
            self._join()

    def _join(self) -> None:
        with self._lock:
            if self._threads >= self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._run, name=f"ostler-{self._name}", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # Looked at again under the lock: work that came just now must not be left without anybody.
                    if self._jobs.empty():
                        self._threads -= 1
                        return
                continue
            job.run()
            del job  # what it holds is not needed while the next one is waited for


_files: Final = Workers("files", 16)
# Files and kills do not wait for each other: a kill takes seconds when a process does not want to go.
_kills: Final = anyio.CapacityLimiter(32)


async def read_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For work that changes nothing: on cancellation it is left to end by itself."""
    found: T = await _files.submit(work, *arguments)
    return found


async def change_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For work that must be known to have ended."""
    future = _files.submit(work, *arguments)
    try:
        done: T = await asyncio.shield(future)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([future])
        future.cancelled() or future.exception()  # looked at: nobody else will
        raise
    return done


class _Later:
    """Work that nobody waits for, all of some moments in one trip to a thread: each trip holds others up."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}

    def add(self, work: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        if loop not in self._waiting:
            self._waiting[loop] = []
            loop.call_later(_LATER_SECONDS, self._begin, loop)
        self._waiting[loop].append(work)

    def take(self) -> list[Callable[[], object]]:
        return self._waiting.pop(asyncio.get_running_loop(), [])

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        done = _files.submit(_each, self._waiting.pop(loop, []))
        done.add_done_callback(lambda done: done.cancelled() or done.exception())


def _each(works: list[Callable[[], object]]) -> None:
    for work in works:
        with contextlib.suppress(Exception):  # what one cannot do is no reason for the others
            work()


_later: Final = _Later()


def change_later(work: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
    """For work that has to be done, and that nobody waits for: a moment later, when whoever waits has been served."""
    _later.add(partial(work, *arguments))


async def do_what_was_put_off() -> None:
    """For who is about to end: there is no later then."""
    await change_in_thread(_each, _later.take())


async def kill_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For the end of processes, which waits for them."""
    return await anyio.to_thread.run_sync(work, *arguments, limiter=_kills)
