"""Runs one command in a shell: started behind a gate, its output in a file, ended with all that it started.

It runs in the foreground, where its call waits for it, or in the background as a task; a foreground command can go to
the background while it runs.
"""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ostler.protocol.ids import CallId, TaskId
from ostler.tools.context import ToolContext
from ostler.tools.formats.terminal_text import clean_ahead
from ostler.tools.process import process
from ostler.tools.sandbox import release_placeholders
from ostler.tools.sandbox.kernel.limits import LimitWatch
from ostler.tools.services import BackgroundedBy
from ostler.tools.shell.output.full_output import FullOutput, open_full_output
from ostler.tools.shell.output.image import find_picture, may_be_picture
from ostler.tools.shell.output.output_file import MAX_BYTES, Ending, OutputFile
from ostler.tools.shell.output.progress import OutputProgress
from ostler.tools.shell.running.launch import CommandSpec, prepare
from ostler.tools.shell.running.pipe_copier import PipeCopier
from ostler.tools.threads import change_in_thread, change_later, kill_in_thread, read_in_thread

if TYPE_CHECKING:
    from ostler.tools.formats.image import Picture

_SHORT_BYTES: Final = 16 * 1024
"""Bytes of output that are read from the page cache without a thread."""
_PROGRESS_AFTER: Final = 2.0
_PROGRESS_EVERY: Final = 1.0
_POLL_SECONDS: Final = 0.1
_TRIM_BYTES: Final = 8 * 1024 * 1024
"""New output after which the middle of the file is given back to the disk."""
_CLEAN_UP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """How a command ended and what it printed."""

    output: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    too_much: bool
    """It was ended since it printed more than the limit."""
    started_in: str
    ended_in: str
    """The shell's folder at the end; where that is not known, the one where it started."""
    left_behind: list[str]
    """Names of the processes that it had left running, and that were ended."""
    duration_ms: int
    sandboxed: bool = False
    picture: "Picture | None" = None
    """What it printed, where that is a picture."""
    full_output: FullOutput | None = None
    """All of the output, where that is longer than what is here."""
    set_aside: tuple[str, ...] = ()
    """About each guarded name that it made or changed in the sandbox, and that was renamed."""
    limit: str | None = None
    """The limit that ended it, in words."""


@dataclass(frozen=True, slots=True)
class BackgroundedCommand:
    """A command that goes on in the background."""

    task_id: TaskId
    by: BackgroundedBy
    output: str
    """What it has printed so far."""
    started_in: str
    duration_ms: int
    sandboxed: bool = False
    full_output: FullOutput | None = None
    """All of that, where it is longer than what is here."""


@dataclass(slots=True)
class RunningCommand:
    """A command that has begun, with all resources that are to be released at its end."""

    call_id: CallId
    command: str
    description: str | None
    folder: str
    output: OutputFile
    child: process.Child
    copier: PipeCopier | None = None
    """Null for a command that an earlier daemon started."""
    placeholders: frozenset[str] | None = None
    """Held while it runs in the sandbox, so that protected names cannot be created."""
    sandboxed: bool = False
    set_aside: tuple[str, ...] = ()
    """Known at its end: about each guarded name that it made or changed, and that was renamed."""
    limit_watch: LimitWatch | None = None
    """Where its memory, processes or files are bounded."""
    stopped_by: str | None = None
    """The limit that ended it, in words."""
    started: float = field(default_factory=time.monotonic)

    @property
    def printed_too_much(self) -> bool:
        return self.output.size > MAX_BYTES

    async def is_over_limit(self) -> bool:
        """Looks whether it has passed one of its limits, and kills it then."""
        watch = self.limit_watch
        if watch is None or not watch.limits.are_watched:
            return False
        if self.stopped_by is None and (why := await read_in_thread(watch.find_exceeded)) is not None:
            self.stopped_by = why
            await kill_in_thread(watch.kill)
        return self.stopped_by is not None

    async def wait(self) -> None:
        """Until it has ended, by itself or by a limit."""
        while not self.child.ended:
            with anyio.move_on_after(_POLL_SECONDS if self.limit_watch is not None else None):
                await self.child.wait()
            if not self.child.ended:
                await self.is_over_limit()

    async def end(self) -> list[str]:
        """Ends all its living processes; returns the names of what it had left running."""
        left_behind: list[str] = []
        by_itself, printed = self.child.ended, self.output.size
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLEAN_UP_SECONDS):
                left_behind = await self.child.end_tree(self.call_id)
                await self.child.wait()
                await self._finish_copying()
            if not by_itself:
                self.output.remove_kill_notices(printed)
            self.child.release()
            await self._release_limits()
            if self.placeholders is not None:
                held, self.placeholders = self.placeholders, None
                self.set_aside = tuple(await change_in_thread(release_placeholders, held))
        return left_behind

    async def _release_limits(self) -> None:
        watch, self.limit_watch = self.limit_watch, None
        if watch is not None:
            why = await change_in_thread(watch.explain_end, self.child.exit_code, self.child.signal)
            self.stopped_by = self.stopped_by or why
            await change_in_thread(watch.release)

    async def _finish_copying(self) -> None:
        if self.copier is not None:
            await self.copier.finish()
        else:
            await kill_in_thread(process.end_copiers, self.call_id)

    def resolve_exit_code(self, ending: Ending) -> int | None:
        """From the exit status, or from what the shell wrote down where an earlier daemon was its parent."""
        if self.child.exit_code is not None or self.child.signal is not None:
            return self.child.exit_code
        return ending.exit_code


async def run_command(spec: CommandSpec, context: ToolContext) -> FinishedCommand | BackgroundedCommand:
    """Runs it to its end, its time limit, the end of the call, or until it goes to the background.

    Raises NoFolder, SandboxMissing, NotProtectable and OSError.
    """
    return await _ForegroundCommand(spec, await _start_command(spec, context), context).run_to_end()


async def _start_command(spec: CommandSpec, context: ToolContext) -> RunningCommand:
    prepared = await prepare(spec, context)
    copier: PipeCopier | None = None
    try:
        copier = PipeCopier.start(prepared.output.descriptor)
        child = await process.start(
            prepared.arguments,
            prepared.environment,
            copier.pipe,
            context.call_id,
            context.services.processes,
            prepared.opened,
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            if copier is not None:
                await copier.finish()
            await change_in_thread(prepared.discard)
        raise
    copier.close_pipe()
    return RunningCommand(
        context.call_id,
        spec.command,
        spec.description,
        prepared.folder,
        prepared.output,
        child,
        copier,
        prepared.placeholders,
        prepared.sandboxed,
        limit_watch=prepared.watch_limits(child.pid),
    )


@dataclass(slots=True)
class _ForegroundCommand:
    """A command that its call waits for."""

    spec: CommandSpec
    running: RunningCommand
    context: ToolContext
    _handed_over: bool = False
    _is_ended: bool = False
    _ended_by_itself: bool = False
    _left_behind: list[str] = field(default_factory=list)
    _progress: OutputProgress = field(default_factory=OutputProgress)
    _trimmed: int = 0

    async def run_to_end(self) -> FinishedCommand | BackgroundedCommand:
        running, context = self.running, self.context
        try:
            by = "model" if self.spec.in_background else await self._watch()
            if by is not None:
                with anyio.CancelScope(shield=True):
                    if self.spec.watch is not None:
                        task_id = await context.services.tasks.monitor(running, self.spec.watch)
                    else:
                        task_id = await context.services.tasks.adopt(running, by)
                    return await self._move_to_background(task_id, by)
            await self._end()
        except BaseException:
            if not self._handed_over:
                await self._end()
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS):
                    context.partial_output.text = (await read_in_thread(_read_output, running.output))[0]
                change_later(running.output.remove)
            raise
        finally:
            context.services.processes.record_end(context.call_id, running.child.pid)
        return await self._build_finished()

    async def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._ended_by_itself = self.running.child.ended
        self._left_behind = await self.running.end()
        if not self._ended_by_itself:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS):
                await self._report_progress()

    async def _move_to_background(self, task_id: TaskId, by: BackgroundedBy) -> BackgroundedCommand:
        running = self.running
        # From here on the task owns it, whatever becomes of the call.
        self._handed_over = True
        return BackgroundedCommand(
            task_id=task_id,
            by=by,
            output=await read_in_thread(running.output.read_shown) if by != "model" else "",
            started_in=running.folder,
            duration_ms=self._measure_duration(),
            sandboxed=running.sandboxed,
            full_output=open_full_output(running.output) if by != "model" else None,
        )

    async def _build_finished(self) -> FinishedCommand:
        running, child, own_end = self.running, self.running.child, self._ended_by_itself
        too_much = running.printed_too_much
        output, ending, picture, whole = await _collect(running.output)
        return FinishedCommand(
            output=output,
            exit_code=child.exit_code if own_end else None,
            signal=child.signal if own_end else None,
            timed_out=not own_end and not too_much and running.stopped_by is None,
            too_much=too_much,
            started_in=running.folder,
            ended_in=ending.folder or running.folder,
            # A shell that was killed left the command that killed it, which is not worth a remark.
            left_behind=self._left_behind if own_end and child.signal is None else [],
            duration_ms=self._measure_duration(),
            sandboxed=running.sandboxed,
            picture=picture,
            full_output=whole,
            set_aside=running.set_aside,
            limit=running.stopped_by,
        )

    def _measure_duration(self) -> int:
        return round((time.monotonic() - self.running.started) * 1000)

    async def _watch(self) -> BackgroundedBy | None:
        """Waits until it ends, prints too much or is out of time; returns who sends it to the background, or null."""
        child, output = self.running.child, self.running.output
        deadline = self.running.started + self.spec.seconds
        next_progress = self.running.started + _PROGRESS_AFTER
        while not child.ended:
            with anyio.move_on_after(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
                await child.wait()
            if child.ended:
                return None
            if self.context.background_request.wanted:
                return "user"
            now = time.monotonic()
            if now >= deadline:
                return "budget" if self.spec.may_go_on else None
            size = output.size
            if size > MAX_BYTES or await self.running.is_over_limit():
                return None
            if size - self._trimmed > _TRIM_BYTES:
                self._trimmed = size
                await read_in_thread(output.trim)
            if now >= next_progress:
                next_progress = now + _PROGRESS_EVERY
                await self._report_progress()
        return None

    async def _report_progress(self) -> None:
        """Sends clients the output since the last report; of very much only the end."""
        new = await read_in_thread(self.running.output.read_newest, self._progress.reported_bytes)
        self.context.progress("shell", self._progress.add(new))


async def _collect(output: OutputFile) -> "tuple[str, Ending, Picture | None, FullOutput | None]":
    """The output to show, how it ended, and a picture or the full output where there is one; removes the files."""
    try:
        short = output.read_nowait(_SHORT_BYTES)
        shown, ending = short if short is not None else await change_in_thread(_read_output, output)
        found = await find_picture(output, shown) if may_be_picture(shown) else None
        whole = open_full_output(output) if short is None and found is None else None
    finally:
        # Not awaited: the call waits for the output, but not for the files to be removed.
        change_later(output.remove)
    if isinstance(found, str):
        return found, ending, None, whole
    return shown, ending, found, whole


def _read_output(output: OutputFile) -> tuple[str, Ending]:
    shown = output.read_shown()
    clean_ahead(shown)
    return shown, output.read_ending()
