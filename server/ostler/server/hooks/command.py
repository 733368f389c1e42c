"""Hooks that are commands: JSON on stdin, an answer on stdout and stderr, and no process left behind."""

import contextlib
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.server.hooks.answers import HookFailure, HookOutput, Reply
from ostler.server.hooks.types import Hook
from ostler.tools.process.environment import MARKER
from ostler.tools.process.process import Child
from ostler.tools.process.stdio import StdioProcess, StreamName
from ostler.tools.services import Processes
from ostler.tools.shell.running.program import find_bash
from ostler.tools.threads import read_in_thread

MAX_BYTES: Final = 1024 * 1024
"""Of each output; the rest is read and thrown away, so that the command does not wait for us."""
_DRAIN_SECONDS: Final = 1.0
"""Seconds for what is still in the pipes when nobody can write to them any more."""
_NOT_STARTED: Final = 125


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Where and how commands are run."""

    folder: str
    environment: Mapping[str, str]
    processes: Processes
    umask: int


async def run_command(hook: Hook, payload: bytes, context: CommandContext) -> Reply:
    """Runs it to its end or its time limit, and ends all that it started."""
    try:
        return await _CommandRun(hook, payload, context).run_to_end()
    except (OSError, ValueError) as error:
        return HookFailure(f"it could not be started: {error}")


@dataclass(slots=True)
class _CommandRun:
    hook: Hook
    payload: bytes
    context: CommandContext
    call_id: CallId = field(default_factory=lambda: CallId(f"hook_{secrets.token_hex(8)}"))
    """Marks its processes as a call's are, so that they are found wherever they go."""
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    async def run_to_end(self) -> Reply:
        script = _build_script(self.context.folder, self.context.umask)
        bash = await read_in_thread(find_bash)
        arguments = [bash, "--noprofile", "--norc", "-c", script, "bash", self.hook.command or ""]
        environment = {**self.context.environment, **self._build_variables()}
        process = await StdioProcess.start(arguments, environment, self.call_id, self.context.processes)
        try:
            in_time = await self._wait_for_exit(process)
        finally:
            await process.end()
            process.close("stdin", "stdout", "stderr")
        return self._build_reply(process.child, in_time)

    async def _wait_for_exit(self, process: StdioProcess) -> bool:
        """Whether it ended in time. Whatever it left running is ended first, so that the pipes come to their end."""
        in_time = False
        async with anyio.create_task_group() as streams:
            streams.start_soon(self._write_payload, process)
            streams.start_soon(_read_stream, process, "stdout", self.out)
            streams.start_soon(_read_stream, process, "stderr", self.err)
            with anyio.move_on_after(self.hook.timeout_seconds):
                await process.child.wait()
            in_time = process.child.ended
            await process.end()
            streams.cancel_scope.deadline = anyio.current_time() + _DRAIN_SECONDS
        return in_time

    def _build_variables(self) -> dict[str, str]:
        folder = self.context.folder
        return {"CLAUDE_PROJECT_DIR": folder, "OSTLER_PROJECT_DIR": folder, MARKER: self.call_id}

    async def _write_payload(self, process: StdioProcess) -> None:
        """Writes the payload to stdin, which a command need not read."""
        with contextlib.suppress(BrokenPipeError):
            await process.write(self.payload)
        process.close("stdin")

    def _build_reply(self, child: Child, in_time: bool) -> Reply:
        out, err = (bytes(each).decode("utf-8", "replace") for each in (self.out, self.err))
        if not in_time:
            return HookFailure(
                f"it took longer than {self.hook.timeout_seconds:g} s", timed_out=True, stdout=out, stderr=err
            )
        if child.exit_code is None:
            return HookFailure(f"signal {child.signal} ended it", stdout=out, stderr=err)
        return HookOutput(out, err, child.exit_code)


def _build_script(folder: str, umask: int) -> str:
    """What the shell does: waits for a first line on stdin, then runs its argument, which reads the rest of stdin."""
    # In one line, so that the shell counts the command's own lines from 1.
    return "; ".join(
        (
            # The end of the file instead of a line: the daemon is gone, and the command must not run.
            f"IFS= read -r REPLY || exit {_NOT_STARTED}",
            "unset REPLY",
            f"umask {umask:03o}",
            f"builtin cd -- {shlex.quote(folder)} || exit {_NOT_STARTED}",
            # The command itself sees no arguments.
            'eval -- "shift; $1"',
        )
    )


async def _read_stream(process: StdioProcess, stream_name: StreamName, into: bytearray) -> None:
    while chunk := await process.read(stream_name):
        into += chunk[: MAX_BYTES - len(into)]
