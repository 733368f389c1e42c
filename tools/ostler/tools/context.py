"""What a tool gets of the running system: facts about its session, and small interfaces."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.session import Mode

if TYPE_CHECKING:
    from ostler.tools.confinement import Sandboxing

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
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the person gave the session, above the daemon's own."""
    home: str = ""
    """The daemon's own folder, which no command may look into."""
    testing: bool = False
    """Tools that exist only for tests are there."""
    umask: int = 0o022
    """The person's own: the daemon's is stricter than what they want for the files of their projects."""
    sandboxing: "Sandboxing | None" = None
    """Null: there is no sandbox, as in a program that only uses the tools."""
    may_read: Callable[[str], bool] | None = None
    """Whether the person's rules let a real path be read; null where no rule speaks of paths."""


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
