"""One command in the fixed shell: started behind a gate, its output in a file, ended with all that it started.

It runs in front of its call, or behind it as a task; a command that is in front can go behind while it runs.
"""

import codecs
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import anyio

from ostler.protocol.ids import CallId, TaskId
from ostler.tools.context import ToolContext
from ostler.tools.formats.terminal_text import clean_ahead
from ostler.tools.process import process
from ostler.tools.sandbox import release
from ostler.tools.shell.output.full_output import PrintedText, all_printed
from ostler.tools.shell.output.image import may_be_picture, picture_in
from ostler.tools.shell.output.output_file import MAX_BYTES, Ending, OutputFile
from ostler.tools.shell.running.launch import Order, made_ready
from ostler.tools.shell.running.pipe_copier import Copier
from ostler.tools.threads import change_in_thread, change_later, kill_in_thread, read_in_thread

if TYPE_CHECKING:
    from ostler.tools.formats.image import Picture

BackgroundedBy = Literal["model", "user", "budget"]

_SHORT: Final = 16 * 1024
"""Bytes that can be read from memory without a thread."""
_PROGRESS_AFTER: Final = 2.0
_PROGRESS_EVERY: Final = 1.0
_LOOK_EVERY: Final = 0.1
_TRIM_BYTES: Final = 8 * 1024 * 1024
"""New output after which the file is looked at for what can be given back."""
_CLEAN_UP: Final = 10.0


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
    picture: "Picture | None" = None
    """What it printed, where that is one."""
    whole: PrintedText | None = None
    """All of the output, where that is longer than what is here."""


@dataclass(frozen=True, slots=True)
class Backgrounded:
    """A command that goes on behind its call."""

    task_id: TaskId
    by: BackgroundedBy
    output: str
    """What it has printed so far."""
    started_in: str
    duration_ms: int
    sandboxed: bool = False
    whole: PrintedText | None = None
    """All of that, where it is longer than what is here."""


@dataclass(slots=True)
class RunningCommand:
    """A command that has begun, with all that has to be let go of at its end."""

    call_id: CallId
    command: str
    description: str | None
    folder: str
    output: OutputFile
    child: process.Child
    copier: Copier | None = None
    """Null for a command that an earlier daemon started."""
    held: frozenset[str] | None = None
    """The names that are kept from being created while it runs in the sandbox."""
    sandboxed: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def printed_too_much(self) -> bool:
        return self.output.size > MAX_BYTES

    async def end(self) -> list[str]:
        """Ends whatever is alive of it; tells the names of what it had left running."""
        left_behind: list[str] = []
        by_itself, printed = self.child.ended, self.output.size
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLEAN_UP):
                left_behind = await self.child.end_tree(self.call_id)
                await self.child.wait()
                await self._all_in_the_file()
            if not by_itself:
                self.output.take_back_notice(printed)
            self.child.release()
            if self.held is not None:
                held, self.held = self.held, None
                await change_in_thread(release, held)
        return left_behind

    async def _all_in_the_file(self) -> None:
        if self.copier is not None:
            await self.copier.finish()
        else:
            await kill_in_thread(process.end_copiers, self.call_id)

    def exit_code(self, ending: Ending) -> int | None:
        """As the shell's parent sees it, or as the shell wrote it down where its parent is gone."""
        if self.child.exit_code is not None or self.child.signal is not None:
            return self.child.exit_code
        return ending.exit_code


async def run_command(order: Order, context: ToolContext) -> Finished | Backgrounded:
    """Runs it to its end, its time limit, the end of the call, or until it goes behind the call.

    Raises NoFolder, SandboxMissing, NotProtectable and OSError.
    """
    return await _InFront(order, await _started(order, context), context).to_its_end()


async def _started(order: Order, context: ToolContext) -> RunningCommand:
    prepared = await made_ready(order, context)
    copier: Copier | None = None
    try:
        copier = Copier.start(prepared.output.descriptor)
        child = await process.start(
            prepared.arguments, prepared.environment, copier.pipe, context.call_id, context.processes
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            if copier is not None:
                await copier.finish()
            await change_in_thread(prepared.drop)
        raise
    copier.close_pipe()
    return RunningCommand(
        context.call_id,
        order.command,
        order.description,
        prepared.folder,
        prepared.output,
        child,
        copier,
        prepared.held,
        prepared.sandboxed,
    )


@dataclass(slots=True)
class _InFront:
    """A command that its call waits for."""

    order: Order
    running: RunningCommand
    context: ToolContext
    _given_away: bool = False
    _over: bool = False
    _ended_by_itself: bool = False
    _left_behind: list[str] = field(default_factory=list)
    _told_bytes: int = 0
    _told_lines: int = 0
    _trimmed: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def to_its_end(self) -> Finished | Backgrounded:
        running, context = self.running, self.context
        try:
            by = "model" if self.order.in_background else await self._watch()
            if by is not None:
                with anyio.CancelScope(shield=True):
                    if self.order.watch is not None:
                        task_id = await context.tasks.monitor(running, self.order.watch)
                    else:
                        task_id = await context.tasks.adopt(running, by)
                    return await self._gone_behind(task_id, by)
            await self._end()
        except BaseException:
            if not self._given_away:
                await self._end()
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP):
                    context.last_words.text = (await read_in_thread(_collected, running.output))[0]
                change_later(running.output.remove)
            raise
        finally:
            context.processes.ended(context.call_id, running.child.pid)
        return await self._finished()

    async def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._ended_by_itself = self.running.child.ended
        self._left_behind = await self.running.end()
        if not self._ended_by_itself:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP):
                await self._tell()

    async def _gone_behind(self, task_id: TaskId, by: BackgroundedBy) -> Backgrounded:
        running = self.running
        # From here on somebody else looks after it, whatever becomes of the call.
        self._given_away = True
        return Backgrounded(
            task_id=task_id,
            by=by,
            output=await read_in_thread(running.output.shown) if by != "model" else "",
            started_in=running.folder,
            duration_ms=self._duration(),
            sandboxed=running.sandboxed,
            whole=all_printed(running.output) if by != "model" else None,
        )

    async def _finished(self) -> Finished:
        running, child, own_end = self.running, self.running.child, self._ended_by_itself
        too_much = running.printed_too_much
        output, ending, picture, whole = await _collect(running.output)
        return Finished(
            output=output,
            exit_code=child.exit_code if own_end else None,
            signal=child.signal if own_end else None,
            timed_out=not own_end and not too_much,
            too_much=too_much,
            started_in=running.folder,
            ended_in=ending.folder or running.folder,
            # A shell that was killed left the command that killed it, which is nobody's news.
            left_behind=self._left_behind if own_end and child.signal is None else [],
            duration_ms=self._duration(),
            sandboxed=running.sandboxed,
            picture=picture,
            whole=whole,
        )

    def _duration(self) -> int:
        return round((time.monotonic() - self.running.started) * 1000)

    async def _watch(self) -> BackgroundedBy | None:
        """Until it ends, prints too much, has had its time, or is to go behind, which is then told."""
        child, output = self.running.child, self.running.output
        deadline = self.running.started + self.order.seconds
        next_progress = self.running.started + _PROGRESS_AFTER
        while not child.ended:
            with anyio.move_on_after(min(_LOOK_EVERY, max(0.0, deadline - time.monotonic()))):
                await child.wait()
            if child.ended:
                return None
            if self.context.background.wanted:
                return "user"
            now = time.monotonic()
            if now >= deadline:
                return "budget" if self.order.may_go_on else None
            size = output.size
            if size > MAX_BYTES:
                return None
            if size - self._trimmed > _TRIM_BYTES:
                self._trimmed = size
                await read_in_thread(output.trim)
            if now >= next_progress:
                next_progress = now + _PROGRESS_EVERY
                await self._tell()
        return None

    async def _tell(self) -> None:
        """What is new since it was last told; of very much only the end."""
        new = await read_in_thread(self.running.output.newest, self._told_bytes)
        self._told_bytes = new.end
        self._told_lines += new.lines
        self.context.progress("shell", {"output": self._decoder.decode(new.data), "lines": self._told_lines})


async def _collect(output: OutputFile) -> "tuple[str, Ending, Picture | None, PrintedText | None]":
    """What there is to see, and the end of the files."""
    try:
        short = output.at_once(_SHORT)
        shown, ending = short if short is not None else await change_in_thread(_collected, output)
        found = await picture_in(output, shown) if may_be_picture(shown) else None
        whole = all_printed(output) if short is None and found is None else None
    finally:
        # Somebody waits for what it printed, and nobody for the files to be gone.
        change_later(output.remove)
    if isinstance(found, str):
        return found, ending, None, whole
    return shown, ending, found, whole


def _collected(output: OutputFile) -> tuple[str, Ending]:
    shown = output.shown()
    clean_ahead(shown)
    return shown, output.ending()
