"""Processes: started behind a gate, watched without polling, ended with all that they started.

`posix_spawn` with a pidfd takes 1.8 to 2.1 ms for `bash -c true`, where asyncio's subprocess takes 2.2 to 2.5 ms.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.tools.process import rlimit_tag, tree
from ostler.tools.process.orphans import awaited_children, find_orphans, find_strays, no_orphan_yet, running_commands
from ostler.tools.process.tree import Running
from ostler.tools.services import Processes
from ostler.tools.threads import kill_in_thread

_SHORT: Final = 1.0
"""Seconds within which a command cannot have used up all process numbers."""
_FEW_ON_THE_LOOP: Final = 30
_FEW: Final = 100
# Python ignores these; what it starts should not.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


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
        awaited_children.add(pid)

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
        awaited_children.discard(self.pid)


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
        self._tag = rlimit_tag.give(pid, running_commands.tags) if ours else rlimit_tag.of(pid)
        running_commands.begin(pid, self.start_time, self._tag)

    async def end_tree(self, call_id: CallId) -> list[str]:
        """Ends whatever is alive of it and tells the names; the zombie itself does not count."""
        since = running_commands.end(self.pid)
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
        if not tree.surely_none(self.pid, call_id, self._prints_to, few, running_commands.others(self.pid)):
            return False
        # Only then: what the call can be told by may end at any time, and leave an orphan that has nothing of it.
        strays = find_strays()
        return not strays or (len(strays) <= few and not find_orphans(since, self._tag))

    def _end_tree(self, call_id: CallId, since: int, short: bool) -> list[str]:
        if short and self._left_nobody(call_id, since, _FEW):
            return []
        found = tree.end_all(lambda: self._alive(call_id, since) or find_orphans(since, self._tag))
        # Older ones were left by commands that are over: they are ended too, but are not this one's.
        return [each.name for each in found if int(each.start_time) >= int(self.start_time or 0)]

    def _alive(self, call_id: CallId, since: int) -> list[Running]:
        return tree.belonging(
            self._leader,
            call_id,
            self._prints_to,
            find_orphans(since, self._tag),
            since=self.start_time,
            others=running_commands.others(self.pid),
        )

    @property
    def _leader(self) -> int | None:
        """The number, while it cannot have become another one's."""
        return self.pid if self._ours or not self.ended else None

    def release(self) -> None:
        running_commands.end(self.pid)
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
        with no_orphan_yet():
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
        with no_orphan_yet():
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


def end_copiers(call_id: str) -> None:
    """Waits for the last words of a command that an earlier daemon started. Blocks, at most about 2 s."""
    deadline = time.monotonic() + tree.PATIENCE
    while (found := tree.copiers(call_id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    tree.end_all(lambda: tree.copiers(call_id) if found else [])
