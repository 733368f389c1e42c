"""Hooks that are commands: JSON on stdin, words on stdout and stderr, and nothing left behind."""

import contextlib
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.server.hooks.answers import Broke, Printed, Reply
from ostler.server.hooks.types import Hook
from ostler.tools.process.environment import MARKER
from ostler.tools.process.process import Child
from ostler.tools.process.stdio import Mouth, Talker
from ostler.tools.services import Processes
from ostler.tools.shell.running.program import bash_path
from ostler.tools.threads import read_in_thread

MAX_BYTES: Final = 1024 * 1024
"""Of each output; the rest is read and thrown away, so that the command does not wait for us."""
_LAST_WORDS: Final = 1.0
"""Seconds for what is still in the pipes when nobody can write to them any more."""
_NOT_BEGUN: Final = 125


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
        return await _Run(hook, payload, place).to_its_end()
    except (OSError, ValueError) as error:
        return Broke(f"it could not be started: {error}")


@dataclass(slots=True)
class _Run:
    hook: Hook
    payload: bytes
    place: Place
    call_id: CallId = field(default_factory=lambda: CallId(f"hook_{secrets.token_hex(8)}"))
    """Marks its processes as a call's are, so that they are found wherever they go."""
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    async def to_its_end(self) -> Reply:
        script = _script(self.place.folder, self.place.umask)
        bash = await read_in_thread(bash_path)
        arguments = [bash, "--noprofile", "--norc", "-c", script, "bash", self.hook.command or ""]
        environment = {**self.place.environment, **self._own_variables()}
        talker = await Talker.start(arguments, environment, self.call_id, self.place.processes)
        try:
            in_time = await self._watch(talker)
        finally:
            await talker.end()
            talker.close("stdin", "stdout", "stderr")
        return self._reply(talker.child, in_time)

    async def _watch(self, talker: Talker) -> bool:
        """Whether it ended in time. Whatever it left running is ended first, so that the pipes come to their end."""
        in_time = False
        async with anyio.create_task_group() as streams:
            streams.start_soon(self._write, talker)
            streams.start_soon(_read, talker, "stdout", self.out)
            streams.start_soon(_read, talker, "stderr", self.err)
            with anyio.move_on_after(self.hook.timeout_seconds):
                await talker.child.wait()
            in_time = talker.child.ended
            await talker.end()
            streams.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS
        return in_time

    def _own_variables(self) -> dict[str, str]:
        folder = self.place.folder
        return {"CLAUDE_PROJECT_DIR": folder, "OSTLER_PROJECT_DIR": folder, MARKER: self.call_id}

    async def _write(self, talker: Talker) -> None:
        """A command need not read it."""
        with contextlib.suppress(BrokenPipeError):
            await talker.write(self.payload)
        talker.close("stdin")

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


async def _read(talker: Talker, mouth: Mouth, into: bytearray) -> None:
    while chunk := await talker.read(mouth):
        into += chunk[: MAX_BYTES - len(into)]
