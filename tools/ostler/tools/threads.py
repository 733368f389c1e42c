"""A thread pool for blocking work of the event loop, with a limited number of threads.

Most work is short: one thread does ten small reads sooner than ten threads that wait for the interpreter's lock. Where
something takes long, a dead network mount or a large file, further threads are started, so that nothing waits for it.
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

_ADD_THREAD_SECONDS: Final = 0.01
"""How long work waits in the queue before another thread is started."""
_IDLE_SECONDS: Final = 30.0
_DEFER_SECONDS: Final = 0.1


class _WorkItem:
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


class ThreadPool:
    """Threads that share a queue of work: one, and more while that is not enough."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._queue: queue.SimpleQueue[_WorkItem] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        job = _WorkItem(work, arguments)
        self._queue.put(job)
        if not self._threads:
            self._start_thread()
        else:
            job.loop.call_later(_ADD_THREAD_SECONDS, self._add_thread_if_waiting, job)
        return job.future

    def _add_thread_if_waiting(self, job: _WorkItem) -> None:
        if not job.taken:
            self._start_thread()

    def _start_thread(self) -> None:
        with self._lock:
            if self._threads >= self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._run, name=f"ostler-{self._name}", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                job = self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # Checked again under the lock: work that came just now must not be left without a thread.
                    if self._queue.empty():
                        self._threads -= 1
                        return
                continue
            job.run()
            del job  # what it holds is not needed while the next one is waited for


_file_threads: Final = ThreadPool("files", 16)
# Files and kills do not wait for each other: a kill takes seconds when a process does not end at once.
_kill_limiter: Final = anyio.CapacityLimiter(32)


async def read_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Runs work that changes nothing: on cancellation it is left to end by itself."""
    found: T = await _file_threads.submit(work, *arguments)
    return found


async def change_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Runs work that must be known to have ended: cancellation waits for its end."""
    future = _file_threads.submit(work, *arguments)
    try:
        done: T = await asyncio.shield(future)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([future])
        future.cancelled() or future.exception()  # retrieved, so that asyncio does not log it as never retrieved
        raise
    return done


class _DeferredWork:
    """Deferred work that nobody waits for, batched into one submission: each one delays other work."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}

    def add(self, work: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        if loop not in self._waiting:
            self._waiting[loop] = []
            loop.call_later(_DEFER_SECONDS, self._submit_all, loop)
        self._waiting[loop].append(work)

    def take_all(self) -> list[Callable[[], object]]:
        return self._waiting.pop(asyncio.get_running_loop(), [])

    def _submit_all(self, loop: asyncio.AbstractEventLoop) -> None:
        done = _file_threads.submit(_run_all, self._waiting.pop(loop, []))
        done.add_done_callback(lambda done: done.cancelled() or done.exception())


def _run_all(works: list[Callable[[], object]]) -> None:
    for work in works:
        with contextlib.suppress(Exception):  # one failure must not keep the others from running
            work()


_deferred: Final = _DeferredWork()


def change_later(work: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
    """Defers work that nobody waits for by a moment, so that work which somebody waits for comes first."""
    _deferred.add(partial(work, *arguments))


async def run_deferred() -> None:
    """Runs all deferred work now: to be called before the process ends."""
    await change_in_thread(_run_all, _deferred.take_all())


async def kill_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Runs work that kills processes and waits for their end, on threads of its own."""
    return await anyio.to_thread.run_sync(work, *arguments, limiter=_kill_limiter)
