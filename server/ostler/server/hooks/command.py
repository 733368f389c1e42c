"""Hooks that are commands: JSON on stdin, words on stdout and stderr, and nothing left behind."""

import contextlib
import os
import secrets
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import anyio
import anyio.to_thread

from ostler.protocol.ids import CallId
from ostler.server.hooks.answers import Broke, Printed, Reply
from ostler.server.hooks.shapes import Hook
from ostler.tools.context import Processes
from ostler.tools.environment import MARKER
from ostler.tools.process import Child

MAX_BYTES: Final = 1024 * 1024
"""Of each output; the rest is read and thrown away, so that the command does not wait for us."""
_AT_ONCE: Final = 64 * 1024
_CLEAN_UP: Final = 10.0
_LAST_WORDS: Final = 1.0
"""Seconds for what is still in the pipes when nobody can write to them any more."""
_NOT_BEGUN: Final = 125
# Python ignores these; what it starts should not.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_spawns: Final = anyio.CapacityLimiter(20)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how commands are run."""

    folder: str
    environment: Mapping[str, str]
    processes: Processes
    umask: int


async def run_command(hook: Hook, payload: bytes, place: Place) -> Reply:
    """Runs it to its end or its time limit, and ends all that it started."""
    try:
        with _Pipes.opened() as pipes:
            return await _Run(hook, payload, place, pipes).to_its_end()
    except (OSError, ValueError) as error:
        return Broke(f"it could not be started: {error}")


@dataclass(slots=True)
class _Pipes:
    """Three pipes: our ends do not block, and no child inherits them."""

    stdin: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]
    _open: set[int]

    @classmethod
    @contextlib.contextmanager
    def opened(cls) -> "Iterator[_Pipes]":
        found: list[tuple[int, int]] = []
        pipes: _Pipes | None = None
        try:
            for _ in range(3):
                found.append(os.pipe())
            pipes = cls(found[0], found[1], found[2], {each for pair in found for each in pair})
            for ours in (pipes.stdin[1], pipes.stdout[0], pipes.stderr[0]):
                os.set_blocking(ours, False)
            yield pipes
        finally:
            for each in pipes._open if pipes else {each for pair in found for each in pair}:
                os.close(each)

    def close(self, *descriptors: int) -> None:
        for each in descriptors:
            if each in self._open:
                self._open.remove(each)
                os.close(each)


@dataclass(slots=True)
class _Run:
    hook: Hook
    payload: bytes
    place: Place
    pipes: _Pipes
    call_id: CallId = field(default_factory=lambda: CallId(f"hook_{secrets.token_hex(8)}"))
    """Marks its processes as a call's are, so that they are found wherever they go."""
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    over: bool = False

    async def to_its_end(self) -> Reply:
        # Cancelled meanwhile, it comes back all the same; and if not, the shell finds its gate closed, and leaves.
        child = Child(await anyio.to_thread.run_sync(self._spawn, limiter=_spawns))
        self.pipes.close(self.pipes.stdin[0], self.pipes.stdout[1], self.pipes.stderr[1])
        try:
            await self.place.processes.started(self.call_id, child.pid, child.start_time)
            in_time = await self._watch(child)
        finally:
            if not self.over:
                await self._end(child)
            self.place.processes.ended(self.call_id, child.pid)
        return self._reply(child, in_time)

    async def _watch(self, child: Child) -> bool:
        """Whether it ended in time. Whatever it left running is ended first, so that the pipes come to their end."""
        in_time = False
        async with anyio.create_task_group() as streams:
            streams.start_soon(self._write)
            streams.start_soon(self._read, self.pipes.stdout[0], self.out)
            streams.start_soon(self._read, self.pipes.stderr[0], self.err)
            with anyio.move_on_after(self.hook.timeout_seconds):
                await child.wait()
            in_time = child.ended
            await self._end(child)
            streams.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS
        return in_time

    def _spawn(self) -> int:
        """On a thread: among the first thread's children it would pass for an orphan until it is known."""
        script = _script(self.place.folder, self.place.umask)
        return os.posix_spawn(
            _bash(),
            [_bash(), "--noprofile", "--norc", "-c", script, "bash", self.hook.command],
            {**self.place.environment, **self._own_variables()},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self.pipes.stdin[0], 0),
                (os.POSIX_SPAWN_DUP2, self.pipes.stdout[1], 1),
                (os.POSIX_SPAWN_DUP2, self.pipes.stderr[1], 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_DEFAULT_SIGNALS,
        )

    def _own_variables(self) -> dict[str, str]:
        folder = self.place.folder
        return {"CLAUDE_PROJECT_DIR": folder, "OSTLER_PROJECT_DIR": folder, MARKER: self.call_id}

    async def _end(self, child: Child) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP):
            await child.end_tree(self.call_id)
            await child.wait()
        child.release()
        self.over = True

    async def _write(self) -> None:
        """The line that opens the gate, then the payload; a command need not read it."""
        rest = memoryview(b"\n" + self.payload)
        with contextlib.suppress(BrokenPipeError):
            while rest:
                await anyio.wait_writable(self.pipes.stdin[1])
                rest = rest[os.write(self.pipes.stdin[1], rest[:_AT_ONCE]) :]
        self.pipes.close(self.pipes.stdin[1])

    async def _read(self, descriptor: int, into: bytearray) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            chunk = os.read(descriptor, _AT_ONCE)
            if not chunk:
                return
            into += chunk[: MAX_BYTES - len(into)]

    def _reply(self, child: Child, in_time: bool) -> Reply:
        out, err = (bytes(each).decode("utf-8", "replace") for each in (self.out, self.err))
        if not in_time:
            return Broke(f"it took longer than {self.hook.timeout_seconds:g} s", timed_out=True, stdout=out, stderr=err)
        if child.exit_code is None:
            return Broke(f"signal {child.signal} ended it", stdout=out, stderr=err)
        return Printed(out, err, child.exit_code)


def _script(folder: str, umask: int) -> str:
    """What the shell does: waits at the gate, then runs its argument, which finds the rest of stdin."""
    # In one line, so that the shell counts the command's own lines from 1.
    return "; ".join(
        (
            # The end of the file instead of a line: the daemon is gone, and the command must not run.
            f"IFS= read -r REPLY || exit {_NOT_BEGUN}",
            "unset REPLY",
            f"umask {umask:03o}",
            f"builtin cd -- {shlex.quote(folder)} || exit {_NOT_BEGUN}",
            # The command itself sees no arguments.
            'eval -- "shift; $1"',
        )
    )


@cache
def _bash() -> str:
    return shutil.which("bash") or "/bin/bash"
