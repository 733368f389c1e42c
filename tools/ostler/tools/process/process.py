"""Processes: started behind a gate, watched without polling, ended with all that they started.

`posix_spawn` with a pidfd takes 1.8 to 2.1 ms for `bash -c true`, where asyncio's subprocess takes 2.2 to 2.5 ms.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.tools.context import Processes
from ostler.tools.process import rlimit_tag, tree
from ostler.tools.process.tree import Running
from ostler.tools.threads import kill_in_thread

_SHORT: Final = 1.0
"""Seconds within which a command cannot have used up all process numbers."""
_FEW_ON_THE_LOOP: Final = 30
_FEW: Final = 100
_MANY: Final = 300
_PR_GET_CHILD_SUBREAPER: Final = 37
# Python ignores these; what it starts should not.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)

_lock: Final = threading.Lock()
"""Held from the start of a command until it is known, so that nobody takes it for an orphan."""
_awaited: Final[set[int]] = set()
"""Children whose status somebody is going to take."""
_seen_dead: Final[set[int]] = set()


@contextlib.contextmanager
def awaited(pid: int) -> Iterator[None]:
    """Keeps `reap_orphans`, and the end of a command, away from a child that the caller waits for.

    The child is to be started on another thread than the first: among that one's children it would pass for an orphan
    until it is here.
    """
    with _lock:
        _awaited.add(pid)
    try:
        yield
    finally:
        _awaited.discard(pid)


class _UnderWay:
    """The commands that run in this daemon, and when the first one of this busy time started, in clock ticks."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._tags: dict[int, int | None] = {}
        self._since = 0

    def begin(self, pid: int, start_time: str, tag: int | None) -> None:
        start = int(start_time or 0)
        if not self._starts:
            self._since = start
        self._starts[pid] = start
        self._tags[pid] = tag

    def end(self, pid: int) -> int:
        """Tells since when there were commands without a break."""
        with _lock:
            self._starts.pop(pid, None)
            self._tags.pop(pid, None)
            return self._since

    @property
    def tags(self) -> set[int]:
        return {tag for tag in self._tags.values() if tag is not None}

    def others(self, pid: int) -> frozenset[int]:
        """The sessions of all commands but one: each is the leader of its own."""
        with _lock:
            return frozenset(self._starts) - {pid}

    def oldest(self) -> float:
        return min(self._starts.values(), default=float("inf"))


_under_way: Final = _UnderWay()


@contextlib.contextmanager
def no_orphan_yet() -> Iterator[None]:
    """Around the start of a process, until somebody watches it."""
    with _lock:
        yield


class Watched:
    """A process whose end somebody waits for. One of ours stays a zombie, and keeps its number, until `release`."""

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self._loop = asyncio.get_running_loop()
        self._ended = anyio.Event()
        self._descriptor = -1
        self.exit_code: int | None = None
        """Null while it runs, and where a signal ended it."""
        self.signal: int | None = None
        self._watch()
        _awaited.add(pid)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> None:
        await self._ended.wait()

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            self._descriptor = os.pidfd_open(self.pid)
            self._loop.add_reader(self._descriptor, self._look)
        else:
            threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        # The loop may be gone by then, and with it everybody who wanted to know.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Takes the status, and leaves the zombie."""
        status = None
        with contextlib.suppress(ChildProcessError):
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is not None and status.si_code == os.CLD_EXITED:
            self.exit_code = status.si_status
        elif status is not None:
            self.signal = status.si_status
        self._stop_watching()
        self._ended.set()

    def _stop_watching(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def release(self) -> None:
        """Takes the zombie away; only for one that has ended, or cannot be ended."""
        self._stop_watching()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        _awaited.discard(self.pid)


class Child(Watched):
    """The leader of its own session.

    One that an earlier daemon started has another parent: nobody here learns how it ended, only that it did.
    """

    def __init__(self, pid: int, *, ours: bool = True, prints_to: str = "") -> None:
        super().__init__(pid)
        self._ours = ours
        self._prints_to = prints_to
        """What /proc calls the pipe of a command that has one; empty where it has to be looked for."""
        self.start_time: Final = tree.start_time(pid)
        self._started = time.monotonic()
        self._tag = rlimit_tag.give(pid, _under_way.tags) if ours else rlimit_tag.of(pid)
        _under_way.begin(pid, self.start_time, self._tag)

    async def end_tree(self, call_id: CallId) -> list[str]:
        """Ends whatever is alive of it and tells the names; the zombie itself does not count."""
        since = _under_way.end(self.pid)
        if not tree.HAS_PROC:
            await kill_in_thread(tree.end_group, self.pid)
            return []
        # Most commands are short and leave nobody: they need not wait for a thread, nor for a look at all processes.
        short = self._ours and self.ended and time.monotonic() - self._started < _SHORT
        if short and self._left_nobody(call_id, since, _FEW_ON_THE_LOOP):
            return []
        return await kill_in_thread(self._end_tree, call_id, since, short)

    def _left_nobody(self, call_id: CallId, since: int, few: int) -> bool:
        """Whether that is sure, after a look at no more than a few processes."""
        if not tree.surely_none(self.pid, call_id, self._prints_to, few, _under_way.others(self.pid)):
            return False
        # Only then: what the call can be told by may end at any time, and leave an orphan that has nothing of it.
        strays = _strays()
        return not strays or (len(strays) <= few and not _orphans(since, self._tag))

    def _end_tree(self, call_id: CallId, since: int, short: bool) -> list[str]:
        if short and self._left_nobody(call_id, since, _FEW):
            return []
        found = tree.end_all(lambda: self._alive(call_id, since) or _orphans(since, self._tag))
        # Older ones were left by commands that are over: they are ended too, but are not this one's.
        return [each.name for each in found if int(each.start_time) >= int(self.start_time or 0)]

    def _alive(self, call_id: CallId, since: int) -> list[Running]:
        return tree.belonging(
            self._leader,
            call_id,
            self._prints_to,
            _orphans(since, self._tag),
            since=self.start_time,
            others=_under_way.others(self.pid),
        )

    @property
    def _leader(self) -> int | None:
        """The number, while it cannot have become another one's."""
        return self.pid if self._ours or not self.ended else None

    def release(self) -> None:
        _under_way.end(self.pid)
        super().release()


async def start(
    arguments: list[str], environment: Mapping[str, str], output: int, call_id: CallId, processes: Processes
) -> Child:
    """Starts a program that reads one line before it begins, and lets it begin when its start is stored.

    If the daemon dies in between, the program reads the end of the file instead, and must leave.
    """
    gate_end, gate = os.pipe()
    try:
        child = spawn(arguments, environment, (gate_end, output, output), tree.pipe_of(output))
        await let_begin(child, gate, call_id, processes)
    finally:
        os.close(gate)
    return child


async def let_begin(child: Child, gate: int, call_id: CallId, processes: Processes) -> None:
    """Opens the gate of a program when its start is stored; where that fails, it never begins."""
    try:
        await processes.started(call_id, child.pid, child.start_time)
        os.write(gate, b"\n")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await child.wait()
        child.release()
        processes.ended(call_id, child.pid)
        raise


def adopt(pid: int, start_time: str) -> Child | None:
    """A process that an earlier daemon started, if it still runs."""
    if not tree.HAS_PROC or not start_time or tree.start_time(pid) != start_time:
        return None
    try:
        with _lock:
            child = Child(pid, ours=False)
    except ProcessLookupError:
        return None
    if child.start_time != start_time:  # it ended a moment ago, and its number went to another one
        child.release()
        return None
    return child


def spawn(
    arguments: list[str], environment: Mapping[str, str], streams: tuple[int, int, int], prints_to: str = ""
) -> Child:
    """The leader of a session of its own, with these as its standard streams; the first is closed here."""
    try:
        with _lock:
            return Child(
                os.posix_spawn(
                    arguments[0],
                    arguments,
                    environment,
                    file_actions=[(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)],
                    setsid=True,
                    setsigmask=[],
                    setsigdef=_DEFAULT_SIGNALS,
                ),
                prints_to=prints_to,
            )
    finally:
        os.close(streams[0])


async def kill_left_over(pid: int, start_time: str, call_id: str) -> list[str]:
    """Ends what an earlier daemon's call left running: its process group if it is still that one, and all marked."""
    return await kill_in_thread(_kill_left_over, pid, start_time, call_id)


def _kill_left_over(pid: int, start_time: str, call_id: str) -> list[str]:
    if not tree.HAS_PROC:
        # Nothing tells whether the number still means the same process; better one too many than a stranger's end.
        return []
    leader = pid if start_time and tree.start_time(pid) == start_time else None
    # The orphans of a dead daemon are init's. What has dropped the marker and the call's output, and shares neither a
    # session nor a living ancestor with anybody who has not, cannot be found. A dead leader's number alone proves
    # nothing: since then, or since the machine was started anew, it may have been another leader's.
    return [each.name for each in tree.end_all(partial(tree.belonging, leader, call_id))]


def end_copiers(call_id: str) -> None:
    """Waits for the last words of a command that an earlier daemon started. Blocks, at most about 2 s."""
    deadline = time.monotonic() + tree.PATIENCE
    while (found := tree.copiers(call_id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    tree.end_all(lambda: tree.copiers(call_id) if found else [])


def _orphans(since: int, own_tag: int | None) -> list[Running]:
    """The living strays that only a command which is over can have left, whatever they call themselves.

    The tag tells whose one is. What has none, and is younger than a command that runs, may be that one's, and stays
    until it is over too.
    """
    looked_at: set[int] = set()
    found: list[Running] = []
    # A stray that ends while we look leaves its own children to us: so until there are no new ones.
    while new := _strays() - looked_at:
        looked_at |= new
        with _lock:
            until, others = _under_way.oldest(), _under_way.tags
        for running in filter(None, map(tree.running, new)):
            theirs = rlimit_tag.of(running.pid)
            is_own = theirs is not None and theirs == own_tag
            if is_own or (theirs not in others and since <= int(running.start_time) < until):
                found.append(running)
    return found


def _strays() -> set[int]:
    """Children that came to us when their parents ended, and that nobody waits for, dead ones too."""
    if not _inherits_orphans():
        return set()
    with _lock:
        return tree.adopted(os.getpid()) - _awaited


def _inherits_orphans() -> bool:
    """Elsewhere than in the daemon, as in a program that only uses its tools, children are nobody's left-overs."""
    if not tree.HAS_PROC:
        return False
    flag = ctypes.c_int(0)
    _libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return bool(flag.value)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def many_orphans() -> bool:
    """Whether there are so many, most of them surely dead, that they should not stay until somebody comes by."""
    return len(_strays()) > _MANY


def reap_orphans() -> list[int]:
    """For a daemon that inherits orphans: takes away dead children that nobody waits for. To be called now and then.

    Blocks: thousands of them take a tenth of a second.

    A child is taken only when it was dead at the call before too: whoever started it without `awaited` waits for it by
    then.
    """
    with contextlib.suppress(ChildProcessError):
        # The cheap look first: most of the time there is nobody.
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            _seen_dead.clear()
            return []
    dead = {pid for pid in _children() if pid not in _awaited and _is_dead(pid)}
    reaped = [pid for pid in sorted(dead & _seen_dead) if _reap(pid)]
    _seen_dead.clear()
    _seen_dead.update(dead.difference(reaped))
    return reaped


def _children() -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    return found


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _reap(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False
