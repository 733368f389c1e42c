"""Bounds on what a sandboxed command uses: memory, processes, and the size of a file.

Memory: by a control group where one is delegated to us, else by watching: what the processes hold is added up ten
times a second, and a command that holds more is ended. Processes and files: by rlimits, set inside the sandbox, where a
new kernel counts the sandbox's own processes alone. For root the kernel does not apply that of processes, so they are
counted too.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ostler.tools.tool_config import Limits

_KILOBYTE: Final = 1024
_MEGABYTE: Final = 1024 * 1024
_GROUP_PREFIX: Final = "ostler-command-"
_FILE_SIGNAL: Final = 25
_MAX_COUNTED: Final = 100_000


def build_limit_prefix(limits: Limits) -> list[str]:
    """A command line that sets the rlimits inside the sandbox, and is followed by the command."""
    steps = []
    if limits.file_mb:
        steps.append(f"ulimit -f {limits.file_mb * _KILOBYTE}")
    if limits.processes:
        steps.append(f"ulimit -u {limits.processes}")
    if not steps:
        return []
    # One that fails would raise a limit that is lower already.
    script = "; ".join((f"{{ {'; '.join(steps)}; }} 2>/dev/null", 'exec "$@"'))
    return [_find_bash(), "--noprofile", "--norc", "-c", script, "bash"]


@cache
def _find_bash() -> str:
    return shutil.which("bash", path="/usr/local/bin:/usr/bin:/bin") or "/bin/bash"


def _explain_memory(limits: Limits) -> str:
    return f"It used more than {limits.memory_mb} MB of memory, the limit of [sandbox] memory_mb, and was ended."


def _explain_processes(limits: Limits) -> str:
    return f"It ran more than {limits.processes} processes, the limit of [sandbox] processes, and was ended."


@dataclass(frozen=True, slots=True)
class LimitWatch:
    """Watches a command that runs."""

    limits: Limits
    leader: int
    """Of all its processes: bwrap."""
    group: str | None = None
    """The folder of its control group, where it has one."""

    def find_exceeded(self) -> str | None:
        """Which limit it has passed, in words; null where none. Blocks."""
        if not self.limits.are_watched:
            return None
        if self.group is not None and has_run_out_of_memory(self.group):
            return _explain_memory(self.limits)
        counted, resident = 0, 0
        pids: list[int] = []
        for pid, threads, pages in _list_processes(self.leader):
            pids.append(pid)
            counted += threads
            resident += pages
            # What holds it all together is not the command's: bwrap, and the shell that waits for it.
            if self.limits.processes and counted > self.limits.processes + _OWN_PROCESSES:
                return _explain_processes(self.limits)
        most = self.limits.memory_mb * _MEGABYTE if self.group is None else 0
        # Shared pages are counted for each process that has them: only the larger sum is worth the slow look.
        if most and resident * _PAGE > most and sum(map(_read_proportional, pids)) > most:
            return _explain_memory(self.limits)
        return None

    def explain_end(self, exit_code: int | None, signal: int | None) -> str | None:
        """Which limit has ended it, where the kernel did that; to be asked at its end. Blocks."""
        if self.group is not None and has_run_out_of_memory(self.group):
            return _explain_memory(self.limits)
        if self.limits.file_mb and (signal == _FILE_SIGNAL or exit_code == 128 + _FILE_SIGNAL):
            return f"It wrote to a file beyond {self.limits.file_mb} MB, the limit of [sandbox] file_mb, and was ended."
        return None

    def release(self) -> None:
        """Removes what was made for it. Blocks."""
        if self.group is not None:
            remove_group(self.group)

    def kill(self) -> None:
        """Ends the first processes in the sandbox, and with these the kernel ends all others at once. Blocks."""
        for pid in _list_children(self.leader):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)


_OWN_PROCESSES: Final = 3
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def _list_processes(leader: int) -> Iterator[tuple[int, int, int]]:
    """Each process below a leader, with its threads and its resident pages."""
    todo = [leader]
    for pid in todo:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            yield pid, int(fields[17]), int(fields[21])
            if len(todo) < _MAX_COUNTED:
                todo += _list_children(pid)


def _list_children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _read_proportional(pid: int) -> int:
    """Bytes that a process holds, of shared ones its part."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * _KILOBYTE
    return 0


# Control groups.


def find_delegated_group(mounts: str = "/proc/self/mountinfo", membership: str = "/proc/self/cgroup") -> str | None:
    """The folder of our own control group, where we may make others below it that bound memory. Blocks."""
    try:
        own = next(line[3:] for line in Path(membership).read_text().splitlines() if line.startswith("0::"))
        base = next(_parse_mounts(Path(mounts).read_text()))
        folder = Path(base + own)
        if "memory" not in (folder / "cgroup.controllers").read_text().split() or not os.access(folder, os.W_OK):
            return None
        switch = folder / "cgroup.subtree_control"
        if "memory" not in switch.read_text().split():
            # The kernel refuses it where processes are in this very group, as ours is unless it was set up for that.
            switch.write_text("+memory")
        return str(folder) if "memory" in switch.read_text().split() else None
    except (OSError, StopIteration, UnicodeError):
        return None


def _parse_mounts(text: str) -> Iterator[str]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if after.startswith("cgroup2 ") and len(fields) > 4 and fields[3] == "/":
            yield fields[4].rstrip("/")


def make_group(parent: str, limits: Limits) -> str:
    """A control group for one command. Blocks; raises OSError."""
    folder = Path(parent, f"{_GROUP_PREFIX}{secrets.token_hex(8)}")
    folder.mkdir()
    try:
        (folder / "memory.max").write_text(str(limits.memory_mb * _MEGABYTE))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            # A kernel without swap does not have the first.
            with contextlib.suppress(FileNotFoundError):
                _write_existing(folder / name, value)
    except OSError:
        remove_group(str(folder))
        raise
    return str(folder)


def _write_existing(file: Path, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def build_group_prefix(group: str) -> list[str]:
    """A command line that enters a control group, outside the sandbox, and is followed by bwrap's."""
    script = 'builtin echo $$ >"$1" || exit 125; shift; exec "$@"'
    return [_find_bash(), "--noprofile", "--norc", "-c", script, "bash", f"{group}/cgroup.procs"]


def has_run_out_of_memory(group: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(group, "memory.events").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count) > 0:
                return True
    return False


def remove_group(group: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(group)
