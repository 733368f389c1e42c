"""Finds all processes that a command started, wherever they went, and ends them.

Linux shows in /proc which ones belong together: by process group and session, by descent, by a variable that every
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

from ostler.tools.process.environment import MARKER, build_output_prefix

GRACE_SECONDS: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_KILL_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
_scan_lock: Final = threading.Lock()
HAS_PROC: Final = os.path.exists("/proc/self/stat")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process that is not dead yet."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: str
    """In clock ticks after the machine's start: together with the pid it names a process for ever."""
    name: str


def read_start_time(pid: int) -> str:
    """Empty where it is not known."""
    found = read_process(pid, dead_too=True)
    return found.start_time if found else ""


def find_call_processes(
    leader: int | None,
    call_id: str,
    pipe: str = "",
    further: Iterable[ProcessInfo] = (),
    *,
    since: str = "",
    others: Collection[int] = (),
) -> list[ProcessInfo]:
    """All living processes of a call, and of further ones, but not the copier of the call's output.

    What is older than its start, or in the session of another command, cannot be the call's, and is not looked at
    closely. One scan at a time: many at once would keep the event loop from the interpreter's lock.
    """
    with _scan_lock:
        return _scan_call_processes(leader, call_id, pipe, further, int(since or 0), others)


def _scan_call_processes(
    leader: int | None, call_id: str, pipe: str, further: Iterable[ProcessInfo], since: int, others: Collection[int]
) -> list[ProcessInfo]:
    table = {pid: found for pid in _list_pids() if (found := read_process(pid)) is not None}
    pipe = pipe or next((_read_descriptor_target(pid, 0) for pid in table if _is_copier(pid, call_id)), "")
    ours = {
        pid
        for pid, found in table.items()
        if int(found.start_time) >= since
        and found.session not in others
        and _belongs_to_call(found, leader, call_id, pipe)
    }
    # No process can join a session: one that shares it with a process of the call is the call's, too.
    sessions = {table[pid].session for pid in ours} - {0, os.getsid(0)}
    ours |= {pid for pid, found in table.items() if found.session in sessions}
    ours |= {each.pid for each in further if each.pid in table and table[each.pid].start_time == each.start_time}
    ours |= _find_descendants(ours | ({leader} if leader is not None else set()), table)
    return [table[pid] for pid in ours if pid != os.getpid()]


def _belongs_to_call(found: ProcessInfo, leader: int | None, call_id: str, pipe: str) -> bool:
    if leader is not None and leader in {found.pid, found.group, found.session}:
        return True
    if _has_marker(found.pid, f"{MARKER}={call_id}".encode()):
        return True
    return bool(pipe) and pipe in (_read_descriptor_target(found.pid, 1), _read_descriptor_target(found.pid, 2))


def list_main_thread_children(daemon: int) -> set[int]:
    """The children of a daemon's main thread, dead ones too: every orphan that it adopts becomes one of them.

    What another thread starts is not among them. Empty on a kernel that does not list them.
    """
    with contextlib.suppress(OSError), open(f"/proc/{daemon}/task/{daemon}/children", "rb") as file:
        return set(map(int, file.read().split()))
    return set()


def has_no_leftovers(leader: int, call_id: str, pipe: str, few: int, others: Collection[int] = ()) -> bool:
    """Whether a leader that has just ended surely left no process. Cheap: checks only pids given out since its start.

    Only for a leader that is younger than a second, in which nobody can use up all pids. False where more than a few
    were given out. A pid takes up to 0.1 ms, one of a session of `others`, which belongs to another command, a fifth
    of that.
    """
    with open("/proc/loadavg", "rb") as file:
        newest = int(file.read().split()[-1])
    if not leader <= newest <= leader + few:
        return False
    since = (found for pid in range(leader, newest + 1) if (found := read_process(pid)) is not None)
    return not any(found.session not in others and _belongs_to_call(found, leader, call_id, pipe) for found in since)


def end_all(find: Callable[[], Collection[ProcessInfo]], patience: float | None = None) -> list[ProcessInfo]:
    """Sends SIGTERM to what is found, SIGKILL to what stays, and returns all of it. Blocks, at most about 5 s."""
    signalled: dict[int, ProcessInfo] = {}
    deadline = time.monotonic() + (GRACE_SECONDS if patience is None else patience)
    found = find()
    while found:
        # New ones get it too: they may have been forked meanwhile.
        for each in found:
            if each.pid not in signalled:
                signalled[each.pid] = each
                _send_signals(each, signal.SIGTERM, signal.SIGCONT)
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_SECONDS)
        found = find()
    deadline = time.monotonic() + _KILL_SECONDS
    while found and time.monotonic() < deadline:
        for each in found:
            signalled.setdefault(each.pid, each)
            _send_signals(each, signal.SIGKILL)
        time.sleep(_POLL_SECONDS / 4)
        found = find()
    return list(signalled.values())


def _send_signals(meant: ProcessInfo, *signals: signal.Signals) -> None:
    """Only to the process that was meant: its pid may have been reused."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if read_start_time(meant.pid) == meant.start_time:
                for each in signals:
                    os.kill(meant.pid, each)
            return
        descriptor = os.pidfd_open(meant.pid)
        try:
            if read_start_time(meant.pid) == meant.start_time:
                for each in signals:
                    signal.pidfd_send_signal(descriptor, each)
        finally:
            os.close(descriptor)


def end_group(leader: int) -> None:
    """Where there is no /proc: the process group, which the caller knows to be its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            os.killpg(leader, 0)
        os.killpg(leader, signal.SIGKILL)


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_process(pid: int, *, dead_too: bool = False) -> ProcessInfo | None:
    """The process of that pid, if there is one."""
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
    return ProcessInfo(pid, parent, group, session, fields[19].decode(), name.decode("utf-8", "replace"))


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False


def find_copiers(call_id: str) -> list[ProcessInfo]:
    """The processes that copy a call's output to its file; none once all of it is there."""
    return [found for pid in _list_pids() if _is_copier(pid, call_id) and (found := read_process(pid)) is not None]


def _is_copier(pid: int, call_id: str) -> bool:
    """Whether its output is the call's file itself, be it deleted meanwhile: the call's own processes have a pipe."""
    return os.path.basename(_read_descriptor_target(pid, 1)).startswith(build_output_prefix(call_id))


def read_pipe_name(descriptor: int) -> str:
    """What /proc calls a pipe that is open here; empty for anything else."""
    name = _read_descriptor_target(os.getpid(), descriptor)
    return name if name.startswith("pipe:") else ""


def _read_descriptor_target(pid: int, descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return ""


def _find_descendants(ancestors: set[int], table: dict[int, ProcessInfo]) -> set[int]:
    found: set[int] = set()
    wave = ancestors
    while wave:
        wave = {pid for pid, each in table.items() if each.parent in wave and pid not in found}
        found |= wave
    return found
