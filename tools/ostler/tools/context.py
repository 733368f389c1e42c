"""What a tool gets of the running system: facts about its session, and small interfaces."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.session import Mode
from ostler.tools.services import (
    Diagnostics,
    FileHistory,
    FileReads,
    NoDiagnostics,
    NoHistory,
    NoResults,
    NoTasks,
    Processes,
    Results,
    Tasks,
)

if TYPE_CHECKING:
    from ostler.tools.sandbox.policy import Sandboxing
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
