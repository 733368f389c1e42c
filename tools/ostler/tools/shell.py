"""One command in the fixed shell: started behind a gate, its output in a file, ended with all that it started."""

import codecs
import contextlib
import os
import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import anyio

from ostler.tools import process
from ostler.tools.confinement import Confinement, confinement, kept_to_reading
from ostler.tools.context import ToolContext
from ostler.tools.environment import command_environment, output_prefix
from ostler.tools.sandbox import confined, hold, release, wrap
from ostler.tools.shell_output import clean_ahead
from ostler.tools.threads import change_in_thread, read_in_thread

MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
_KEPT: Final = 500_000
"""Bytes of the beginning, and of the end, that a result holds."""
_AT_ONCE: Final = 64 * 1024
_PROGRESS_AFTER: Final = 2.0
_PROGRESS_EVERY: Final = 1.0
_PROGRESS_BYTES: Final = 32 * 1024
_LOOK_EVERY: Final = 0.1
_CLEAN_UP: Final = 10.0


class NoFolder(Exception):
    """There is no folder left to run it in."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it printed."""

    output: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    too_much: bool
    """It was stopped since it printed without end."""
    started_in: str
    ended_in: str
    """Where its shell was at the end; where that is not known, where it started."""
    left_behind: list[str]
    """Names of the processes that it had left running, and that were ended."""
    duration_ms: int
    sandboxed: bool = False


async def run_command(command: str, timeout_ms: int, context: ToolContext) -> Finished:
    """Runs it to its end, its time limit, or the end of the call.

    Raises NoFolder, SandboxMissing, NotProtectable and OSError.
    """
    prepared = await change_in_thread(_prepare, command, context)
    try:
        return await _Run(prepared, timeout_ms / 1000, context).to_its_end()
    finally:
        if not prepared.over:
            with anyio.CancelScope(shield=True):
                await change_in_thread(prepared.end)


@dataclass(slots=True)
class _Prepared:
    """All that a command needs to be started."""

    folder: str
    files: "_Files"
    arguments: list[str]
    environment: dict[str, str]
    held: frozenset[str] | None = None
    """The names that are kept from being created while it runs in the sandbox."""
    sandboxed: bool = False
    over: bool = False

    def end(self) -> None:
        """Nothing is left behind. Blocks."""
        self.over = True
        self.files.remove()
        if self.held is not None:
            release(self.held)


def _prepare(command: str, context: ToolContext) -> _Prepared:
    surroundings = context.surroundings
    folder = next((each for each in (surroundings.shell_folder, surroundings.folder) if os.path.isdir(each)), None)
    if folder is None:
        raise NoFolder(f"The folder {surroundings.folder} does not exist any more.")
    sandboxing = surroundings.sandboxing
    confined_by = confinement(sandboxing, surroundings, only_reads=context.only_reads) if sandboxing else None
    files = _Files.create(context.output_folder, output_prefix(context.call_id))
    try:
        script = _script(folder, files.folder_path, surroundings.umask)
        # The shell is looked for here and not on the event loop: the person's PATH may name a slow place.
        arguments = [_bash(), "--noprofile", "--norc", "-c", script, "bash", command]
        environment = command_environment(surroundings.environment, context.call_id)
        if context.only_reads:
            environment = kept_to_reading(environment, surroundings.roots)
        prepared = _Prepared(folder, files, arguments, environment)
        return prepared if confined_by is None else _in_the_sandbox(prepared, confined_by)
    except BaseException:
        files.remove()
        raise


def _in_the_sandbox(prepared: _Prepared, by: Confinement) -> _Prepared:
    profile = replace(by.profile, folder=prepared.folder, own_files=(prepared.files.folder_path,))
    held = hold(profile) if profile.kind == "workspace" else None
    try:
        arguments = wrap(prepared.arguments, profile, by.support)
    except BaseException:
        if held is not None:
            release(held)
        raise
    environment = confined(prepared.environment)
    return replace(prepared, arguments=arguments, environment=environment, held=held, sandboxed=True)


@dataclass(slots=True)
class _Files:
    """Where the output goes, and where the shell says in which folder it ended."""

    output: int
    output_path: str
    folder_path: str
    removed: bool = False

    @classmethod
    def create(cls, place: Path, prefix: str) -> "_Files":
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        created, path = tempfile.mkstemp(".out", prefix, place)
        os.close(created)
        # Everybody writes at its end: what one program writes never covers what another wrote.
        output = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        folder_path = f"{path}.folder"
        # It exists from the start, so that a sandbox can let the shell write to it and to nothing beside it.
        os.close(os.open(folder_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return cls(output, path, folder_path)

    def remove(self) -> None:
        self.removed = True
        os.close(self.output)
        for path in (self.output_path, self.folder_path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


@dataclass(slots=True)
class _Run:
    prepared: _Prepared
    timeout: float
    context: ToolContext
    started: float = field(default_factory=time.monotonic)
    too_much: bool = False
    _told_bytes: int = 0
    _told_lines: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def to_its_end(self) -> Finished:
        call_id, prepared = self.context.call_id, self.prepared
        child = await process.start(
            prepared.arguments, prepared.environment, self.files.output, call_id, self.context.processes
        )
        left_behind: list[str] = []
        timed_out = False
        try:
            with anyio.move_on_after(self.timeout) as limit:
                await self._watch(child)
            timed_out = limit.cancelled_caught and not child.ended
        finally:
            ended_by_itself = child.ended
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP):
                left_behind = await child.end_tree(call_id)
                await child.wait()
                if not ended_by_itself:
                    await self._tell()
            child.release()
            self.context.processes.ended(call_id, child.pid)
        output, folder = await change_in_thread(_result, prepared)
        return Finished(
            output=output,
            exit_code=child.exit_code if ended_by_itself else None,
            signal=child.signal if ended_by_itself else None,
            timed_out=timed_out,
            too_much=self.too_much,
            started_in=prepared.folder,
            ended_in=folder or prepared.folder,
            left_behind=left_behind if ended_by_itself else [],
            duration_ms=round((time.monotonic() - self.started) * 1000),
            sandboxed=prepared.sandboxed,
        )

    @property
    def files(self) -> _Files:
        return self.prepared.files

    async def _watch(self, child: process.Child) -> None:
        """Until it ends, or prints too much."""
        next_progress = self.started + _PROGRESS_AFTER
        while not child.ended:
            with anyio.move_on_after(_LOOK_EVERY):
                await child.wait()
            if os.fstat(self.files.output).st_size > MAX_OUTPUT_BYTES:
                self.too_much = True
                return
            if time.monotonic() >= next_progress and not child.ended:
                next_progress = time.monotonic() + _PROGRESS_EVERY
                await self._tell()

    async def _tell(self) -> None:
        """What is new since it was last told; of very much only the end."""
        new, self._told_bytes, lines = await read_in_thread(_since, self.files.output, self._told_bytes)
        self._told_lines += lines
        self.context.progress("shell", {"output": self._decoder.decode(new), "lines": self._told_lines})


def _since(output: int, place: int) -> tuple[bytes, int, int]:
    """The newest bytes after a place, the place after them, and how many lines ended in between."""
    size, lines, tail = os.fstat(output).st_size, 0, b""
    while place < size:
        chunk = os.pread(output, min(1024 * 1024, size - place), place)
        if not chunk:
            break
        place += len(chunk)
        lines += chunk.count(b"\n")
        tail = (tail + chunk)[-_PROGRESS_BYTES:]
    return tail, place, lines


def _result(prepared: _Prepared) -> tuple[str, str | None]:
    files = prepared.files
    size = os.fstat(files.output).st_size
    if size <= 2 * _KEPT:
        data = os.pread(files.output, size, 0)
    else:
        left_out = f"\n… ({size - 2 * _KEPT} bytes left out) …\n".encode()
        data = os.pread(files.output, _KEPT, 0) + left_out + os.pread(files.output, _KEPT, size - _KEPT)
    folder = None
    with contextlib.suppress(OSError), open(files.folder_path, "rb") as file:
        folder = os.fsdecode(file.read(65536).removesuffix(b"\n")) or None
    prepared.end()
    output = _decoded(data)
    clean_ahead(output)
    return output, folder


def _decoded(data: bytes) -> str:
    """In pieces: one call for all of it would keep the event loop from the interpreter's lock meanwhile."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = (data[place : place + _AT_ONCE] for place in range(0, len(data), _AT_ONCE))
    return "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])


def _script(folder: str, folder_path: str, umask: int) -> str:
    """What the shell does: waits at the gate, then runs its argument, then says where it is."""
    at_the_end = f"builtin pwd -P >{shlex.quote(folder_path)}"
    # In one line, so that the shell counts the command's own lines from 1.
    return "; ".join(
        (
            # The end of the file instead of a line: the daemon is gone, and the command must not run.
            "IFS= read -r REPLY || exit 125",
            "unset REPLY",
            "exec </dev/null",
            f"umask {umask:03o}",
            f"builtin cd -- {shlex.quote(folder)} || exit 125",
            f"trap -- {shlex.quote(at_the_end)} EXIT",
            # The command itself sees no arguments.
            'eval -- "shift; $1"',
        )
    )


@cache
def _bash() -> str:
    return shutil.which("bash") or "/bin/bash"
