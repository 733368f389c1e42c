"""All that a command started, wherever it went, and its end.

Linux tells through /proc who belongs together: by process group and session, by descent, by a variable that every
child inherits, and by the pipe that it prints to. Elsewhere only the process group is known.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ostler.tools.process.environment import MARKER, output_prefix

PATIENCE: Final = 2.0
"""Seconds between the request to end and the end."""
_LAST_PATIENCE: Final = 3.0
_LOOK_AGAIN: Final = 0.02
_looking: Final = threading.Lock()
HAS_PROC: Final = os.path.exists("/proc/self/stat")


@dataclass(frozen=True, slots=True)
class Running:
    """A process that is not dead yet."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: str
    """In clock ticks after the machine's start: together with the pid it names a process for ever."""
    name: str


def start_time(pid: int) -> str:
    """Empty where it cannot be told."""
    found = running(pid, dead_too=True)
    return found.start_time if found else ""


def belonging(
    leader: int | None,
    call_id: str,
    pipe: str = "",
    further: Iterable[Running] = (),
    *,
    since: str = "",
    others: Collection[int] = (),
) -> list[Running]:
    """Everything alive of a call, and of further processes, but not who carries the call's words to its file.

    What is older than its start, or in the session of another command, cannot be the call's, and is not looked at
    closely. One look at a time: many at once would keep the event loop from the interpreter's lock.
    """
    with _looking:
        return _belonging(leader, call_id, pipe, further, int(since or 0), others)


def _belonging(
    leader: int | None, call_id: str, pipe: str, further: Iterable[Running], since: int, others: Collection[int]
) -> list[Running]:
    table = {pid: found for pid in _pids() if (found := running(pid)) is not None}
    pipe = pipe or next((_opened(pid, 0) for pid in table if _is_copier(pid, call_id)), "")
    ours = {
        pid
        for pid, found in table.items()
        if int(found.start_time) >= since and found.session not in others and _belongs(found, leader, call_id, pipe)
    }
    # Nobody can join a session: whoever is in one with a process of the call is the call's, whatever it has dropped.
    sessions = {table[pid].session for pid in ours} - {0, os.getsid(0)}
    ours |= {pid for pid, found in table.items() if found.session in sessions}
    ours |= {each.pid for each in further if each.pid in table and table[each.pid].start_time == each.start_time}
    ours |= _descendants(ours | ({leader} if leader is not None else set()), table)
    return [table[pid] for pid in ours if pid != os.getpid()]


def _belongs(found: Running, leader: int | None, call_id: str, pipe: str) -> bool:
    if leader is not None and leader in {found.pid, found.group, found.session}:
        return True
    if _has_marker(found.pid, f"{MARKER}={call_id}".encode()):
        return True
    return bool(pipe) and pipe in (_opened(found.pid, 1), _opened(found.pid, 2))


def adopted(daemon: int) -> set[int]:
    """The children of a daemon's first thread, dead ones too: every orphan that it inherits becomes one of them.

    What another thread starts is not among them. Empty on a kernel that does not tell.
    """
    with contextlib.suppress(OSError), open(f"/proc/{daemon}/task/{daemon}/children", "rb") as file:
        return set(map(int, file.read().split()))
    return set()


def surely_none(leader: int, call_id: str, pipe: str, few: int, others: Collection[int] = ()) -> bool:
    """Whether a leader that has just ended left nobody. Cheap: looks only at the numbers given out since it started.

    Only for a leader that is younger than a second, in which nobody can use up all numbers. Where more than a few were
    given out, it does not know. A number takes up to 0.1 ms, one of a session of `others`, which belongs to another
    command, a fifth of that.
    """
    with open("/proc/loadavg", "rb") as file:
        newest = int(file.read().split()[-1])
    if not leader <= newest <= leader + few:
        return False
    since = (found for pid in range(leader, newest + 1) if (found := running(pid)) is not None)
    return not any(found.session not in others and _belongs(found, leader, call_id, pipe) for found in since)


def end_all(find: Callable[[], Collection[Running]], patience: float = PATIENCE) -> list[Running]:
    """Asks what is found to end, ends what does not, and tells all that it found. Blocks, at most about 5 s."""
    told: dict[int, Running] = {}
    deadline = time.monotonic() + patience
    found = find()
    while found:
        # New ones are asked too: they may have been forked while the others were.
        for each in found:
            if each.pid not in told:
                told[each.pid] = each
                _send(each, signal.SIGTERM, signal.SIGCONT)
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_AGAIN)
        found = find()
    deadline = time.monotonic() + _LAST_PATIENCE
    while found and time.monotonic() < deadline:
        for each in found:
            told.setdefault(each.pid, each)
            _send(each, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN / 4)
        found = find()
    return list(told.values())


def _send(meant: Running, *signals: signal.Signals) -> None:
    """Only to the process that was meant: its number may have gone to another one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if start_time(meant.pid) == meant.start_time:
                for each in signals:
                    os.kill(meant.pid, each)
            return
        descriptor = os.pidfd_open(meant.pid)
        try:
            if start_time(meant.pid) == meant.start_time:
                for each in signals:
                    signal.pidfd_send_signal(descriptor, each)
        finally:
            os.close(descriptor)


def end_group(leader: int, patience: float = PATIENCE) -> None:
    """Where there is no /proc: the process group, which the caller knows to be its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)
            os.killpg(leader, 0)
        os.killpg(leader, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def running(pid: int, *, dead_too: bool = False) -> Running | None:
    """The process of that number, if there is one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold any character.
    name = line[line.index(b"(") + 1 : line.rindex(b")")]
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX" and not dead_too:
        return None
    parent, group, session = int(fields[1]), int(fields[2]), int(fields[3])
    return Running(pid, parent, group, session, fields[19].decode(), name.decode("utf-8", "replace"))


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False


def copiers(call_id: str) -> list[Running]:
    """Who carries the words of a call to its file; none where nobody says anything any more."""
    return [found for pid in _pids() if _is_copier(pid, call_id) and (found := running(pid)) is not None]


def _is_copier(pid: int, call_id: str) -> bool:
    """Whether its output is the call's file itself, be it deleted meanwhile: the call's own processes have a pipe."""
    return os.path.basename(_opened(pid, 1)).startswith(output_prefix(call_id))


def pipe_of(descriptor: int) -> str:
    """What /proc calls a pipe that is open here; empty for anything else."""
    name = _opened(os.getpid(), descriptor)
    return name if name.startswith("pipe:") else ""


def _opened(pid: int, descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return ""


def _descendants(ancestors: set[int], table: dict[int, Running]) -> set[int]:
    found: set[int] = set()
    wave = ancestors
    while wave:
        wave = {pid for pid, each in table.items() if each.parent in wave and pid not in found}
        found |= wave
    return found
