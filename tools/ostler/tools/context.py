"""What a tool gets of the running system: facts about its session, and small interfaces."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ostler.protocol.ids import CallId, ResultId, SessionId, TaskId
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Task

if TYPE_CHECKING:
    from ostler.tools.sandbox.policy import Sandboxing
    from ostler.tools.shell.running.command import BackgroundedBy, RunningCommand
    from ostler.tools.shell.running.profile import ShellProfile

ProgressKind = Literal["shell", "agent", "mcp", "search", "skill"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The session as a tool sees it. Immutable: replaced as a whole when something changes."""

    session_id: SessionId
    folder: str
    """The session's own folder: where relative paths of searches start."""
    shell_folder: str
    """Where the next command starts."""
    roots: tuple[str, ...]
    """The folders that the person chose: the session's own and the additional ones."""
    mode: Mode
    real_roots: tuple[str, ...] | None = None
    """The same after all links, as they led when the session was looked at; null: to be asked of the file system.

    A link that leads elsewhere later widens nothing: what it leads to then is outside.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the person gave the session, above the daemon's own."""
    home: str = ""
    """The daemon's own folder, which no command may look into."""
    real_home: str | None = None
    """The same after all links, as above."""
    testing: bool = False
    """Tools that exist only for tests are there."""
    umask: int = 0o022
    """The person's own: the daemon's is stricter than what they want for the files of their projects."""
    sandboxing: "Sandboxing | None" = None
    """Null: there is no sandbox, as in a program that only uses the tools."""
    may_read: Callable[[str], bool] | None = None
    """Whether the person's rules let a real path be read; null where no rule speaks of paths."""
    profile: "ShellProfile | None" = None
    """The person's profile; null where commands have only the daemon's own variables."""
    background: bool = True
    """Whether commands may go on behind their calls."""
    switched_off: frozenset[str] = frozenset()
    """Names of tools that the configuration has switched off."""
    tools: frozenset[str] | None = None
    """Names of the tools that the session has; null: all that there are."""
    most_files: int = 100
    """How many files Glob lists."""
    read_tokens: int = 25_000
    """How much text Read shows in one call."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """The session's MCP servers by name, each with a digest of its entry."""
    assistant: "Assistant | None" = None
    """Null: it is not in assistant mode, or only an agent of one that is."""

    def has(self, *tools: str) -> bool:
        """Whether the model can be told of all of these."""
        return self.tools is None or self.tools.issuperset(tools)


@dataclass(frozen=True, slots=True)
class Assistant:
    """A session that is there for its person all day: it waits for nothing for long, and looks up now and then."""

    tick_seconds: float
    """How long it sleeps before a tick wakes it."""
    blocking_ms: int = 15_000
    """How long a command without a limit of its own is waited for before it goes on in the background."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """What the session has seen of a file."""

    mtime_ns: int
    size: int
    digest: str
    """SHA-256 of the whole content at that time."""
    ranges: tuple[tuple[int, int], ...]
    """First and last line of what the session knows, merged, 1-based."""
    total_lines: int
    shown: tuple[tuple[int, int], ...] = ()
    """What Read showed of the file as it is now: nothing after a write, whose result shows only a part."""

    @property
    def partial(self) -> bool:
        return self.total_lines > 0 and self.ranges != ((1, self.total_lines),)


class FileReads(Protocol):
    """The files that the session has read, by real path; stored together with the call that read them."""

    def get(self, path: str) -> FileRead | None: ...
    def put(self, path: str, read: FileRead) -> None: ...


class Processes(Protocol):
    """The processes that run for calls, so that none outlives its turn, not even when the daemon dies."""

    async def started(self, call_id: CallId, pid: int, start_time: str) -> None:
        """Returns when it is stored; only then may the command begin."""

    def ended(self, call_id: CallId, pid: int) -> None: ...


class NoSuchResult(Exception):
    """The session has no such result; the words are for the model."""


class Results(Protocol):
    """The persisted results that the session owns."""

    def pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        """The whole text, piece by piece; raises NoSuchResult before the first."""
        ...


class NoResults:
    """There are none, as in a program that only uses the tools."""

    async def pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        raise NoSuchResult(f"There is no result {result_id!r}: no results are kept here.")
        yield ""  # what makes it an iterator


@dataclass(frozen=True, slots=True)
class OlderFile:
    """A file as it is before a call changes it."""

    mode: int
    size: int
    digest: str
    """SHA-256 of its content."""
    content: Callable[[], bytes]
    """Asked for on a thread, and only where the content is to be kept."""


class FileHistory(Protocol):
    """What files held before a turn changed them first, so that it can be shown and taken back."""

    async def keep(self, path: str, older: OlderFile | None) -> None:
        """Returns when it is stored; only then may the file at the real path be changed. Null: there is none yet."""


class NoHistory:
    """Nothing is kept, as in a program that only uses the tools."""

    async def keep(self, path: str, older: OlderFile | None) -> None:
        return None


Severity = Literal["error", "warning", "information", "hint"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What an editor or a language server has to say about a place in a file."""

    severity: Severity
    message: str
    line: int | None = None
    """1-based, as is the column; null where it is about the file as a whole."""
    column: int | None = None


class Diagnostics(Protocol):
    """Whoever looks at files for mistakes."""

    async def after_change(self, path: str, place: str) -> Sequence[Diagnostic] | None:
        """What is wrong with a file now, by its path as it was written and its real one; null where nobody says."""


class NoDiagnostics:
    """Nobody looks at files."""

    async def after_change(self, path: str, place: str) -> Sequence[Diagnostic] | None:
        return None


@dataclass(frozen=True, slots=True)
class TaskLook:
    """A task as it is, and what it has printed since the last look."""

    task: Task
    new: str
    more: bool = False
    """There is more than was asked for."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What a monitor waits for, and how long."""

    until: str | None
    """A pattern, as ripgrep takes it: the first line that matches is told, and ends it. Null: each line is told."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that an MCP server tells of."""

    server: str
    digest: str
    """Of the server's entry, as it was when the call was allowed."""
    uri: str


class NotWatchable(Exception):
    """What is to be watched cannot be; the words are for the model."""


class Tasks(Protocol):
    """What goes on behind the calls of the session."""

    @property
    def enabled(self) -> bool:
        """Whether commands may go behind their calls here."""
        ...

    async def adopt(self, running: "RunningCommand", by: "BackgroundedBy") -> TaskId:
        """Takes a command over; when this returns, it is stored as a task, and looked after."""
        ...

    async def monitor(self, running: "RunningCommand", watch: Watch) -> TaskId:
        """The same for one whose lines become messages to the session."""
        ...

    async def follow(self, call_id: CallId, resource: Resource, description: str, watch: Watch) -> TaskId:
        """The same for a resource of an MCP server, whose new lines become messages. Raises NotWatchable."""
        ...

    async def known(self) -> Sequence[Task]:
        """All tasks of the session, oldest first."""
        ...

    async def look(self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False) -> TaskLook | None:
        """A task of the session, when it is over or so many seconds have passed; null where there is none.

        Of what it has printed since the last look at most so many bytes; with `whole_lines`, a line that is not
        complete yet is left for the next one.
        """

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        """Ends a task of the session, with all that it started; null where there is none."""


class NoTasks:
    """Nothing goes on behind its call, as in a program that only uses the tools."""

    enabled = False

    async def adopt(self, running: "RunningCommand", by: "BackgroundedBy") -> TaskId:
        raise NotImplementedError("there are no tasks here")

    async def monitor(self, running: "RunningCommand", watch: Watch) -> TaskId:
        raise NotImplementedError("there are no tasks here")

    async def follow(self, call_id: CallId, resource: Resource, description: str, watch: Watch) -> TaskId:
        raise NotWatchable("Nothing goes on in the background here.")

    async def known(self) -> Sequence[Task]:
        return ()

    async def look(self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False) -> TaskLook | None:
        return None

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        return None


Waker = Literal["message", "task", "monitor"]


class Stir:
    """Wakes whoever sleeps in a session: something was said, a task has ended, or a monitor has seen something.

    What the model has not been told of yet still counts: who goes to sleep then wakes at once.
    """

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        self._waker: Waker | None = None

    def set(self, waker: Waker) -> None:
        self._waker = self._waker or waker
        if self._event is not None:
            self._event.set()
            self._event = None

    def told(self) -> None:
        """The next request brings it all."""
        self._waker = None

    async def wait(self) -> Waker:
        while self._waker is None:
            self._event = self._event or asyncio.Event()
            await self._event.wait()
        return self._waker


@dataclass(slots=True)
class Background:
    """Whether a person wants a running call to go on in the background."""

    wanted: bool = False


@dataclass(slots=True)
class LastWords:
    """What a call that is stopped had printed: it has no result to say it with."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call gets."""

    call_id: CallId
    surroundings: Surroundings
    reads: FileReads
    processes: Processes
    progress: Callable[[ProgressKind, dict[str, Any]], None]
    """Tells the clients how far the call is; what it says is not stored."""
    output_folder: Path
    """Where a command's output may be kept while it runs."""
    only_reads: bool = False
    """It was let pass because it changes nothing, and must be kept to that."""
    results: Results = field(default_factory=NoResults)
    """What earlier calls gave that was too long to be shown whole."""
    history: FileHistory = field(default_factory=NoHistory)
    diagnostics: Diagnostics = field(default_factory=NoDiagnostics)
    tasks: Tasks = field(default_factory=NoTasks)
    background: Background = field(default_factory=Background)
    stir: Stir = field(default_factory=Stir)
    changed_by_person: bool = False
    """The input is not what the model gave: a person changed it before they allowed it."""
    last_words: LastWords = field(default_factory=LastWords)
