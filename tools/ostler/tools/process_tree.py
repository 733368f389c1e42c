"""All that a command started, wherever it went, and its end.

Linux tells through /proc who belongs together: by process group and session, by descent, and by a variable that every
child inherits. Elsewhere only the process group is known.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ostler.tools.environment import MARKER

PATIENCE: Final = 2.0
"""Seconds between the request to end and the end."""
_LAST_PATIENCE: Final = 3.0
_LOOK_AGAIN: Final = 0.02
_FEW: Final = 100

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
    running = _running(pid, dead_too=True)
    return running.start_time if running else ""


def belonging(leader: int | None, call_id: str) -> list[Running]:
    """Everything alive of a call."""
    table = {pid: found for pid in _pids() if (found := _running(pid)) is not None}
    ours = {pid for pid, found in table.items() if _belongs(found, leader, call_id)}
    ours |= _descendants(ours | ({leader} if leader is not None else set()), table)
    return [table[pid] for pid in ours if pid != os.getpid()]


def _belongs(found: Running, leader: int | None, call_id: str) -> bool:
    if leader is not None and leader in {found.pid, found.group, found.session}:
        return True
    return _has_marker(found.pid, f"{MARKER}={call_id}".encode())


def surely_none(leader: int, call_id: str) -> bool:
    """Whether a leader that has just ended left nobody. Cheap: looks only at the numbers given out since it started.

    Only for a leader that is younger than a second, in which nobody can use up all numbers.
    """
    with open("/proc/loadavg", "rb") as file:
        newest = int(file.read().split()[-1])
    if not leader <= newest <= leader + _FEW:
        return False
    since = (found for pid in range(leader, newest + 1) if (found := _running(pid)) is not None)
    return not any(_belongs(found, leader, call_id) for found in since)


def end_all(find: Callable[[], Iterable[Running]], patience: float = PATIENCE) -> list[str]:
    """Asks what is found to end, ends what does not, and tells the names. Blocks, at most about five seconds."""
    told: dict[int, str] = {}
    deadline = time.monotonic() + patience
    found = list(find())
    while found:
        # New ones are asked too: they may have been forked while the others were.
        for running in found:
            if running.pid not in told:
                told[running.pid] = running.name
                _send(running, signal.SIGTERM, signal.SIGCONT)
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_AGAIN)
        found = list(find())
    deadline = time.monotonic() + _LAST_PATIENCE
    while found and time.monotonic() < deadline:
        for running in found:
            told.setdefault(running.pid, running.name)
            _send(running, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN / 4)
        found = list(find())
    return list(told.values())


def _send(running: Running, *signals: signal.Signals) -> None:
    """Only to the process that was meant: its number may have gone to another one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if start_time(running.pid) == running.start_time:
                for each in signals:
                    os.kill(running.pid, each)
            return
        descriptor = os.pidfd_open(running.pid)
        try:
            if start_time(running.pid) == running.start_time:
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


def _running(pid: int, *, dead_too: bool = False) -> Running | None:
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


def _descendants(ancestors: set[int], table: dict[int, Running]) -> set[int]:
    found: set[int] = set()
    wave = ancestors
    while wave:
        wave = {pid for pid, running in table.items() if running.parent in wave and pid not in found}
        found |= wave
    return found
