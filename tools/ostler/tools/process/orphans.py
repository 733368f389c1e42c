"""Orphans: processes whose parents have ended and that came to the daemon: found, ended and reaped."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from functools import cache, partial
from typing import Final

from ostler.tools.process import rlimit_tag, tree
from ostler.tools.process.tree import Running
from ostler.tools.threads import kill_in_thread

_MANY: Final = 300
_PR_GET_CHILD_SUBREAPER: Final = 37
_lock: Final = threading.Lock()
"""Held from the start of a command until it is known, so that nobody takes it for an orphan."""
awaited_children: Final[set[int]] = set()
"""Children whose status somebody is going to take."""
_seen_dead: Final[set[int]] = set()


@contextlib.contextmanager
def awaited(pid: int) -> Iterator[None]:
    """Keeps `reap_orphans`, and the end of a command, away from a child that the caller waits for.

    The child is to be started on another thread than the first: among that one's children it would pass for an orphan
    until it is here.
    """
    with _lock:
        awaited_children.add(pid)
    try:
        yield
    finally:
        awaited_children.discard(pid)


class RunningCommands:
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


running_commands: Final = RunningCommands()


@contextlib.contextmanager
def no_orphan_yet() -> Iterator[None]:
    """Around the start of a process, until somebody watches it."""
    with _lock:
        yield


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


def find_orphans(since: int, own_tag: int | None) -> list[Running]:
    """The living strays that only a command which is over can have left, whatever they call themselves.

    The tag tells whose one is. What has none, and is younger than a command that runs, may be that one's, and stays
    until it is over too.
    """
    looked_at: set[int] = set()
    found: list[Running] = []
    # A stray that ends while we look leaves its own children to us: so until there are no new ones.
    while new := find_strays() - looked_at:
        looked_at |= new
        with _lock:
            until, others = running_commands.oldest(), running_commands.tags
        for running in filter(None, map(tree.running, new)):
            theirs = rlimit_tag.of(running.pid)
            is_own = theirs is not None and theirs == own_tag
            if is_own or (theirs not in others and since <= int(running.start_time) < until):
                found.append(running)
    return found


def find_strays() -> set[int]:
    """Children that came to us when their parents ended, and that nobody waits for, dead ones too."""
    if not _inherits_orphans():
        return set()
    with _lock:
        return tree.adopted(os.getpid()) - awaited_children


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
    return len(find_strays()) > _MANY


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
    dead = {pid for pid in _children() if pid not in awaited_children and _is_dead(pid)}
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
