"""Starts processes, watches them without polling, and ends them with all that they started.

A process that is started behind a gate waits for a line on its standard input before it begins, so that its start can
be stored first.

`posix_spawn` with a pidfd takes 1.8 to 2.1 ms for `bash -c true`, where asyncio's subprocess takes 2.2 to 2.5 ms.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.tools.process import rlimit_tag, tree
from ostler.tools.process.orphans import (
    awaited_children,
    block_orphan_scan,
    find_orphans,
    list_adopted_children,
    running_commands,
)
from ostler.tools.process.tree import ProcessInfo
from ostler.tools.services import Processes
from ostler.tools.threads import kill_in_thread

_SHORT_SECONDS: Final = 1.0
"""Seconds within which a command cannot have used up all pids."""
_MAX_CHECKED_ON_LOOP: Final = 30
_MAX_CHECKED_IN_THREAD: Final = 100
# Python ignores these; what it starts should not.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class WatchedProcess:
    """A process whose end somebody waits for. One of ours stays a zombie, and keeps its pid, until `release`."""

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self._loop = asyncio.get_running_loop()
        self._ended = anyio.Event()
        self._descriptor = -1
        self.exit_code: int | None = None
        """Null while it runs, and where a signal ended it."""
        self.signal: int | None = None
        self._watch()
        awaited_children.add(pid)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> None:
        await self._ended.wait()

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            self._descriptor = os.pidfd_open(self.pid)
            self._loop.add_reader(self._descriptor, self._poll_exit)
        else:
            threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        # The event loop may be closed by then, and with it everybody who waited.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._poll_exit)

    def _poll_exit(self) -> None:
        """Reads the exit status, and leaves the zombie."""
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
        """Reaps the zombie; only for one that has ended, or cannot be ended."""
        self._stop_watching()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        awaited_children.discard(self.pid)


class Child(WatchedProcess):
    """A process that leads its own OS session.

    One that an earlier daemon started has another parent: how it ended is not known here, only that it did.
    """

    def __init__(self, pid: int, *, ours: bool = True, output_pipe: str = "") -> None:
        super().__init__(pid)
        self._is_our_child = ours
        self._output_pipe = output_pipe
        """What /proc calls the pipe of a command that has one; empty where it has to be looked for."""
        self.start_time: Final = tree.read_start_time(pid)
        self._started = time.monotonic()
        self._tag = rlimit_tag.set_tag(pid, running_commands.tags) if ours else rlimit_tag.read_tag(pid)
        running_commands.begin(pid, self.start_time, self._tag)

    async def end_tree(self, call_id: CallId) -> list[str]:
        """Ends all living processes of the command and returns their names; the zombie itself does not count."""
        since = running_commands.end(self.pid)
        if not tree.HAS_PROC:
            await kill_in_thread(tree.end_group, self.pid)
            return []
        # Most commands are short and leave nothing running: they need neither a thread nor a scan of all processes.
        short = self._is_our_child and self.ended and time.monotonic() - self._started < _SHORT_SECONDS
        if short and self._has_no_leftovers(call_id, since, _MAX_CHECKED_ON_LOOP):
            return []
        return await kill_in_thread(self._end_tree, call_id, since, short)

    def _has_no_leftovers(self, call_id: CallId, since: int, few: int) -> bool:
        """Whether it surely left nothing running, checked on at most `few` processes."""
        if not tree.has_no_leftovers(self.pid, call_id, self._output_pipe, few, running_commands.list_others(self.pid)):
            return False
        # Only then: a process that identifies the call may end at any time, and leave an orphan that has nothing of it.
        adopted = list_adopted_children()
        return not adopted or (len(adopted) <= few and not find_orphans(since, self._tag))

    def _end_tree(self, call_id: CallId, since: int, short: bool) -> list[str]:
        if short and self._has_no_leftovers(call_id, since, _MAX_CHECKED_IN_THREAD):
            return []
        found = tree.end_all(lambda: self._find_alive(call_id, since) or find_orphans(since, self._tag))
        # Older ones were left by earlier commands: they are ended too, but are not this one's.
        return [each.name for each in found if int(each.start_time) >= int(self.start_time or 0)]

    def _find_alive(self, call_id: CallId, since: int) -> list[ProcessInfo]:
        return tree.find_call_processes(
            self._leader,
            call_id,
            self._output_pipe,
            find_orphans(since, self._tag),
            since=self.start_time,
            others=running_commands.list_others(self.pid),
        )

    @property
    def _leader(self) -> int | None:
        """The pid, while it cannot have been reused."""
        return self.pid if self._is_our_child or not self.ended else None

    def release(self) -> None:
        running_commands.end(self.pid)
        super().release()


async def start(
    arguments: list[str],
    environment: Mapping[str, str],
    output: int,
    call_id: CallId,
    processes: Processes,
    opened: Sequence[tuple[int, str]] = (),
) -> Child:
    """Starts a program that reads one line before it begins, and lets it begin when its start is stored.

    If the daemon dies in between, the program reads the end of the file instead, and must leave.
    """
    gate_end, gate = os.pipe()
    try:
        child = spawn(arguments, environment, (gate_end, output, output), tree.read_pipe_name(output), opened)
        await open_gate(child, gate, call_id, processes)
    finally:
        os.close(gate)
    return child


async def open_gate(child: Child, gate: int, call_id: CallId, processes: Processes) -> None:
    """Lets a program begin when its start is stored; where that fails, it is killed before it begins."""
    try:
        await processes.record_start(call_id, child.pid, child.start_time)
        os.write(gate, b"\n")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await child.wait()
        child.release()
        processes.record_end(call_id, child.pid)
        raise


def adopt(pid: int, start_time: str) -> Child | None:
    """A process that an earlier daemon started, if it still runs."""
    if not tree.HAS_PROC or not start_time or tree.read_start_time(pid) != start_time:
        return None
    try:
        with block_orphan_scan():
            child = Child(pid, ours=False)
    except ProcessLookupError:
        return None
    if child.start_time != start_time:  # it ended a moment ago, and its pid was reused
        child.release()
        return None
    return child


def spawn(
    arguments: list[str],
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    output_pipe: str = "",
    opened: Sequence[tuple[int, str]] = (),
) -> Child:
    """Starts the leader of a new OS session with these standard streams; the first is closed here.

    `opened`: further files that it is given to read, each by its number.
    """
    files = [(os.POSIX_SPAWN_OPEN, number, path, os.O_RDONLY, 0) for number, path in opened]
    try:
        with block_orphan_scan():
            return Child(
                os.posix_spawn(
                    arguments[0],
                    arguments,
                    environment,
                    file_actions=[
                        *((os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)),
                        *files,
                    ],
                    setsid=True,
                    setsigmask=[],
                    setsigdef=_DEFAULT_SIGNALS,
                ),
                output_pipe=output_pipe,
            )
    finally:
        os.close(streams[0])


def end_copiers(call_id: str) -> None:
    """Waits until the last output of an earlier daemon's command is in its file, then ends its copiers.

    Blocks, at most about 2 s.
    """
    deadline = time.monotonic() + tree.GRACE_SECONDS
    while (found := tree.find_copiers(call_id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    tree.end_all(lambda: tree.find_copiers(call_id) if found else [])
