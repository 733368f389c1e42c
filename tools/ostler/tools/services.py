"""What a tool can ask of the running system, as protocols; the empty forms are for programs without a daemon."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from ostler.protocol.ids import CallId, ResultId, TaskId
from ostler.protocol.shapes import Task

if TYPE_CHECKING:
    from ostler.tools.shell.running.command import BackgroundedBy, RunningCommand


Severity = Literal["error", "warning", "information", "hint"]


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
