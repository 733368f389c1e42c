"""Finds, ends and reaps orphans: processes whose parents have ended, and which the daemon, a subreaper, has adopted."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from functools import cache, partial
from typing import Final

from ostler.tools.process import rlimit_tag, tree
from ostler.tools.process.tree import ProcessInfo
from ostler.tools.threads import kill_in_thread

_MANY_ORPHANS: Final = 300
_PR_GET_CHILD_SUBREAPER: Final = 37
_lock: Final = threading.Lock()
"""Held from the start of a command until it is registered, so that nobody takes it for an orphan."""
awaited_children: Final[set[int]] = set()
"""Children that somebody waits for, and whose status they are going to read."""
_seen_dead: Final[set[int]] = set()


@contextlib.contextmanager
def exclude_from_reaping(pid: int) -> Iterator[None]:
    """Keeps `reap_orphans`, and the clean-up after a command, from reaping a child that the caller waits for.

    The child is to be started on another thread than the main one: among that one's children it would pass for an
    orphan until it is registered here.
    """
    with _lock:
        awaited_children.add(pid)
    try:
        yield
    finally:
        awaited_children.discard(pid)


class RunningCommands:
    """The commands that run in this daemon, and since when at least one has been running, in clock ticks."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._tags: dict[int, int | None] = {}
        self._busy_since = 0

    def begin(self, pid: int, start_time: str, tag: int | None) -> None:
        start = int(start_time or 0)
        if not self._starts:
            self._busy_since = start
        self._starts[pid] = start
        self._tags[pid] = tag

    def end(self, pid: int) -> int:
        """Removes it; returns since when at least one command has been running."""
        with _lock:
            self._starts.pop(pid, None)
            self._tags.pop(pid, None)
            return self._busy_since

    @property
    def tags(self) -> set[int]:
        return {tag for tag in self._tags.values() if tag is not None}

    def list_others(self, pid: int) -> frozenset[int]:
        """The OS sessions of all commands but one: each is the leader of its own."""
        with _lock:
            return frozenset(self._starts) - {pid}

    def find_oldest_start(self) -> float:
        return min(self._starts.values(), default=float("inf"))


running_commands: Final = RunningCommands()


@contextlib.contextmanager
def block_orphan_scan() -> Iterator[None]:
    """Keeps scans for orphans waiting, around the start of a process until it is registered."""
    with _lock:
        yield


async def kill_left_over(pid: int, start_time: str, call_id: str) -> list[str]:
    """Ends what an earlier daemon's call left running: its process group if that is still its own, and all marked."""
    return await kill_in_thread(_kill_left_over, pid, start_time, call_id)


def _kill_left_over(pid: int, start_time: str, call_id: str) -> list[str]:
    if not tree.HAS_PROC:
        # Without /proc a reused pid cannot be noticed; better to leave one running than to end somebody else's.
        return []
    leader = pid if start_time and tree.read_start_time(pid) == start_time else None
    # The orphans of a dead daemon are init's. What has dropped the marker and the call's output, and shares neither a
    # session nor a living ancestor with a process that has not, cannot be found. A dead leader's pid alone proves
    # nothing: since then, or since the machine was restarted, it may have been another leader's.
    return [each.name for each in tree.end_all(partial(tree.find_call_processes, leader, call_id))]


def find_orphans(since: int, own_tag: int | None) -> list[ProcessInfo]:
    """The living orphans that only a command which has ended can have left.

    The rlimit tag says which command an orphan belongs to. One without a tag that is younger than a running command may
    belong to that command, and is left alone until that has ended too.
    """
    checked: set[int] = set()
    found: list[ProcessInfo] = []
    # An orphan that ends during the scan leaves its own children to us: repeat until no new ones appear.
    while new := list_adopted_children() - checked:
        checked |= new
        with _lock:
            until, others = running_commands.find_oldest_start(), running_commands.tags
        for process in filter(None, map(tree.read_process, new)):
            tag = rlimit_tag.read_tag(process.pid)
            is_own = tag is not None and tag == own_tag
            if is_own or (tag not in others and since <= int(process.start_time) < until):
                found.append(process)
    return found


def list_adopted_children() -> set[int]:
    """Children that this process adopted when their parents ended, and that nobody waits for; zombies too."""
    if not _inherits_orphans():
        return set()
    with _lock:
        return tree.list_main_thread_children(os.getpid()) - awaited_children


def _inherits_orphans() -> bool:
    """Whether this process is a subreaper, as the daemon is; a program that only uses the tools is none."""
    if not tree.HAS_PROC:
        return False
    flag = ctypes.c_int(0)
    _load_libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return bool(flag.value)


@cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def has_many_orphans() -> bool:
    """Whether there are so many adopted children, most of them surely dead, that they should be reaped now."""
    return len(list_adopted_children()) > _MANY_ORPHANS


def reap_orphans() -> list[int]:
    """For a daemon that adopts orphans: reaps dead children that nobody waits for. To be called now and then.

    Blocks: thousands of them take a tenth of a second.

    A child is reaped only when it was dead at the call before too: whoever started it without `exclude_from_reaping`
    waits for it by then.
    """
    with contextlib.suppress(ChildProcessError):
        # The cheap check first: most of the time no child is dead.
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            _seen_dead.clear()
            return []
    dead = {pid for pid in _list_children() if pid not in awaited_children and _is_dead(pid)}
    reaped = [pid for pid in sorted(dead & _seen_dead) if _reap(pid)]
    _seen_dead.clear()
    _seen_dead.update(dead.difference(reaped))
    return reaped


def _list_children() -> set[int]:
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
