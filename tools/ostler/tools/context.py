"""What a tool is given: a read-only view of its session, and the context of one call."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Literal

from ostler.protocol.ask import GiveAnswers
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.session import Mode
from ostler.tools.services import AgentKind, Services
from ostler.tools.tool_config import DEFAULT_CONFIG, Assistant, ToolConfig

ProgressKind = Literal["shell", "agent", "mcp", "search", "skill"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """The session as a tool sees it. Immutable: replaced as a whole when something changes."""

    session_id: SessionId
    folder: str
    """The session's own folder."""
    shell_folder: str
    """The folder that the session is in: where the next command starts, and searches without a path."""
    roots: tuple[str, ...]
    """The folders that the person chose: the session's own and the additional ones."""
    mode: Mode
    config: ToolConfig = DEFAULT_CONFIG
    """What the daemon's configuration says to tools."""
    real_roots: tuple[str, ...] | None = None
    """The roots with all links resolved, as of when this view was made; null: to be resolved in the file system.

    A link that is pointed elsewhere later widens nothing: its new target is outside.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the person gave the session, which override the daemon's own."""
    home: str = ""
    """The daemon's own folder, which no command may read."""
    real_home: str | None = None
    """The same with all links resolved, as for the roots."""
    git_folder: str | None = None
    """Of a session in a worktree: the git folder of its repository, outside of the roots, which git has to read."""
    main_checkout: str | None = None
    """Of the same session: the main work tree, where no rule about commands lets one work."""
    may_read: Callable[[str], bool] | None = None
    """Whether the person's rules let a real path be read; null where no rule speaks of paths."""
    background: bool = True
    """Whether commands may go on in the background here: it is allowed, and a tool reads what they print."""
    tools: frozenset[str] | None = None
    """Names of the tools that the session has; null: all that there are."""
    trusted_files: tuple[str, ...] = ()
    """Files that hooks and MCP servers in effect run, as a script of a trusted folder: to write one is asked about."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """The session's MCP servers by name, each with a digest of its entry."""
    resource_servers: tuple[str, ...] = ()
    """Those of the servers that have resources, as they said when they were reached."""
    is_agent: bool = False
    """It works for another session, and not for people."""
    plan_file: str | None = None
    """Where its plan is written in plan mode; null where nobody could approve one."""
    asks_nobody: bool = False
    """Whether whatever would be asked is refused, in this turn."""
    assistant: Assistant | None = None
    """Null: the session is not in assistant mode, or is only an agent of one that is."""

    opened_addresses: frozenset[IPv4Address | IPv6Address] = frozenset()
    """Addresses outside the public internet that a rule names, and so lets be fetched from."""
    skill_list: str = ""
    """The skills as the model was told of them, a line each."""
    skill_folders: tuple[str, ...] = ()
    """The folders of the skills in effect: what lies beside a skill may be read."""
    api_searches: bool = False
    """The API of the session's model is known to search the web."""
    agent_kinds: tuple[AgentKind, ...] = ()
    """The kinds of agents that it may start; empty where it may start none."""

    def has(self, *tools: str) -> bool:
        """Whether the session has all of these tools, so that a description may name them."""
        return self.tools is None or self.tools.issuperset(tools)


Waker = Literal["message", "task", "monitor"]


class WakeSignal:
    """Wakes a sleeping call of a session: a message came, a task has ended, or a monitor has seen something.

    It stays set until the model has been told: who begins to wait before that wakes at once.
    """

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        self._waker: Waker | None = None

    def set(self, waker: Waker) -> None:
        self._waker = self._waker or waker
        if self._event is not None:
            self._event.set()
            self._event = None

    def clear(self) -> None:
        """To be called when the next model request brings all that has happened."""
        self._waker = None

    async def wait(self) -> Waker:
        while self._waker is None:
            self._event = self._event or asyncio.Event()
            await self._event.wait()
        return self._waker


@dataclass(slots=True)
class BackgroundRequest:
    """Whether a person wants a running call to go on in the background."""

    wanted: bool = False


@dataclass(slots=True)
class PartialOutput:
    """What a stopped call had printed until then: it has no result that could say so."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class PlanApproval:
    """A person approved a plan."""

    plan: str
    """As they approved it."""
    edited: bool
    """They changed it."""
    mode: Mode | None
    """The mode from now on; null: the one before planning."""


PeopleAnswer = GiveAnswers | PlanApproval


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call of a tool is given."""

    call_id: CallId
    session: SessionView
    services: Services
    """What the daemon does for tools: files, processes, results, tasks."""
    progress: Callable[[ProgressKind, dict[str, Any]], None]
    """Sends the progress of the call to clients; it is not stored."""
    output_folder: Path
    """Where a command's output may be kept while it runs."""
    only_reads: bool = False
    """The call was allowed because it changes nothing, and must be restricted to reading."""
    allowed_by_check: bool = False
    """The tool's own check allowed the call, and nobody else: what it runs must be what was checked."""
    allowed_by_text: bool = False
    """The text of a command allowed it, by the check or by a rule: nothing in it may change what its words mean."""
    background_request: BackgroundRequest = field(default_factory=BackgroundRequest)
    wake_signal: WakeSignal = field(default_factory=WakeSignal)
    changed_by_person: bool = False
    """The input is not what the model gave: a person changed it before they allowed it."""
    answer: PeopleAnswer | None = None
    """What the people answered, where the tool's check was an `AskPeople`."""
    partial_output: PartialOutput = field(default_factory=PartialOutput)

    @property
    def surroundings(self) -> SessionView:
        """Deprecated: the name of `session` in an earlier release, for plug-ins."""
        return self.session


Surroundings = SessionView
"""Deprecated: its name in an earlier release, for plug-ins."""
