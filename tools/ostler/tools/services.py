"""Services of the daemon that tools use, as protocols; the `No…` classes are for programs without a daemon.

A tool finds them in `context.services`. A new family of tools adds its protocol here, and one field to `Services`.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ostler.protocol.ids import CallId, ResultId, SessionId, TaskId, TodoId
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Task, Usage
from ostler.protocol.todo import Todo

if TYPE_CHECKING:
    from ostler.tools.shell.output.output_file import Ending, OutputFile

BackgroundedBy = Literal["model", "user", "budget"]
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

    async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
        """Returns when the start is stored; only then may the command begin."""

    def record_end(self, call_id: CallId, pid: int) -> None: ...


class NoSuchResult(Exception):
    """The session has no such result; the message is for the model."""


class StoredResults(Protocol):
    """The persisted results that the session owns."""

    def read_pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        """Yields the whole text, piece by piece; raises NoSuchResult before the first."""
        ...


class NoResults:
    """There are no stored results, as in a program that only uses the tools."""

    async def read_pieces(self, result_id: ResultId) -> AsyncIterator[str]:
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
    """Called on a thread, and only where the content is to be kept."""


class FileHistory(Protocol):
    """The content of files before a turn first changed them, so that the change can be shown and undone."""

    async def keep(self, path: str, older: OlderFile | None) -> None:
        """Returns when it is stored; only then may the file at the real path be changed. Null: a new file."""


class NoHistory:
    """No history is kept, as in a program that only uses the tools."""

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
    """Where diagnostics of files come from: an editor or a language server."""

    async def collect(self, path: str, place: str) -> Sequence[Diagnostic] | None:
        """What is wrong with a file after a change, by its path as given and its real path; null where nobody says."""


class NoDiagnostics:
    """There is no source of diagnostics."""

    async def collect(self, path: str, place: str) -> Sequence[Diagnostic] | None:
        return None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A background task as it is now, and what it has printed since the last poll."""

    task: Task
    new_output: str
    has_more: bool = False
    """There is more new output than was asked for."""


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """What a monitor waits for, and how long."""

    until: str | None
    """A pattern, as ripgrep takes it: the first line that matches is reported, and ends it. Null: each line is."""
    seconds: float


@dataclass(frozen=True, slots=True)
class McpResource:
    """A resource of an MCP server, whose updates can be followed."""

    server: str
    digest: str
    """Digest of the server's entry, as it was when the call was allowed."""
    uri: str


class NotWatchable(Exception):
    """What is to be watched cannot be; the message is for the model."""


class RunningProcess(Protocol):
    """The first process of a running command."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def signal(self) -> int | None: ...


class RunningCommand(Protocol):
    """A command that has begun, as a task supervises it."""

    @property
    def call_id(self) -> CallId: ...
    @property
    def command(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def output(self) -> "OutputFile": ...
    @property
    def child(self) -> RunningProcess: ...
    @property
    def folder(self) -> str: ...
    @property
    def started(self) -> float: ...

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Known at its end: about each guarded name that it made or changed, and that was renamed."""
        ...

    @property
    def stopped_by(self) -> str | None:
        """The limit that ended it, in words."""
        ...

    async def wait(self) -> None:
        """Until it has ended, by itself or by a limit."""

    async def end(self) -> list[str]:
        """Ends all its living processes; returns the names of what it had left running."""
        ...

    def resolve_exit_code(self, ending: "Ending") -> int | None: ...


@dataclass(frozen=True, slots=True)
class TodoEdit:
    """What changes in an item of the work list."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """New values, by the names that `Todo` has for them."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Joined to what there is; a key with null is taken out."""
    blocks: Sequence[TodoId] | None = None
    """All items that wait for it; null: as before."""
    blocked_by: Sequence[TodoId] | None = None
    """All items that it waits for; null: as before."""
    add_blocks: Sequence[TodoId] = ()
    add_blocked_by: Sequence[TodoId] = ()
    claims: bool = False
    """Whoever changes it does it from now on, unless somebody does already."""


class TodoRefused(Exception):
    """The work list cannot be changed like this; the message is for the model."""

    def __init__(self, message: str, missing: TodoId | None = None) -> None:
        super().__init__(message)
        self.missing = missing
        """The item that the list does not have."""


class Todos(Protocol):
    """The work list of the session. Every change raises TodoRefused where it cannot be made."""

    async def list_todos(self) -> Sequence[Todo]:
        """All items, in the order of the list."""
        ...

    async def create(self, edit: TodoEdit) -> Todo:
        """Adds an item; hooks may refuse it."""
        ...

    async def update(self, todo_id: TodoId, edit: TodoEdit) -> tuple[Todo, Sequence[Todo]]:
        """Changes an item; hooks may refuse that it is completed. Returns it as it was, and the whole list after it."""
        ...

    async def delete(self, todo_id: TodoId) -> None: ...

    async def replace_all(self, todos: Sequence[Todo]) -> tuple[Sequence[Todo], Sequence[Todo]]:
        """Puts other items in the place of all; those without an id get one. Returns the list before and after."""
        ...


class NoTodos:
    """There is no work list, as in a program that only uses the tools."""

    async def list_todos(self) -> Sequence[Todo]:
        return ()

    async def create(self, edit: TodoEdit) -> Todo:
        raise TodoRefused("No work list is kept here.")

    async def update(self, todo_id: TodoId, edit: TodoEdit) -> tuple[Todo, Sequence[Todo]]:
        raise TodoRefused("No work list is kept here.", missing=todo_id)

    async def delete(self, todo_id: TodoId) -> None:
        raise TodoRefused("No work list is kept here.", missing=todo_id)

    async def replace_all(self, todos: Sequence[Todo]) -> tuple[Sequence[Todo], Sequence[Todo]]:
        raise TodoRefused("No work list is kept here.")


class Tasks(Protocol):
    """The background tasks of the session."""

    @property
    def enabled(self) -> bool:
        """Whether commands may go on in the background here."""
        ...

    async def adopt(self, running: RunningCommand, by: BackgroundedBy) -> TaskId:
        """Makes a task of a running command; when this returns, it is stored and supervised."""
        ...

    async def monitor(self, running: RunningCommand, watch: WatchSpec) -> TaskId:
        """The same for one whose lines become messages to the session."""
        ...

    async def follow(self, call_id: CallId, resource: McpResource, description: str, watch: WatchSpec) -> TaskId:
        """The same for a resource of an MCP server, whose new lines become messages. Raises NotWatchable."""
        ...

    async def list_tasks(self) -> Sequence[Task]:
        """All tasks of the session, oldest first."""
        ...

    async def poll(
        self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False
    ) -> TaskSnapshot | None:
        """A task of the session, when it is over or so many seconds have passed; null where there is none.

        With at most `most` bytes of what it has printed since the last poll; with `whole_lines`, a line that is not
        complete yet is left for the next one.
        """

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        """Ends a task of the session, with all that it started; null where there is none."""


class NoTasks:
    """There are no background tasks, as in a program that only uses the tools."""

    enabled = False

    async def adopt(self, running: RunningCommand, by: BackgroundedBy) -> TaskId:
        raise NotImplementedError("there are no tasks here")

    async def monitor(self, running: RunningCommand, watch: WatchSpec) -> TaskId:
        raise NotImplementedError("there are no tasks here")

    async def follow(self, call_id: CallId, resource: McpResource, description: str, watch: WatchSpec) -> TaskId:
        raise NotWatchable("Nothing goes on in the background here.")

    async def list_tasks(self) -> Sequence[Task]:
        return ()

    async def poll(
        self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False
    ) -> TaskSnapshot | None:
        return None

    async def stop(self, task_id: TaskId, why: str) -> Task | None:
        return None


@dataclass(frozen=True, slots=True)
class EnteredWorktree:
    """A git worktree that was made, and that the session is in now."""

    path: str
    branch: str | None
    """Null where a hook made it, and checked out no branch."""


@dataclass(frozen=True, slots=True)
class LeftWorktree:
    """What became of the worktree that the session was in, and where the session is now."""

    path: str
    branch: str | None
    folder: str
    """Where the next command starts."""
    removed: bool
    discarded_files: tuple[str, ...] = ()
    discarded_commits: tuple[str, ...] = ()
    note: str = ""
    """What else is to be said of it."""


class WorktreeRefused(Exception):
    """It cannot be made, left or removed like this; the message is for the model."""


class Worktrees(Protocol):
    """The git worktree that the session works in. Both raise WorktreeRefused, and change nothing then."""

    async def enter(self, name: str | None) -> EnteredWorktree:
        """Makes a worktree and moves the session there; without a name it gets a random one."""
        ...

    async def leave(self, *, remove: bool, discard: bool) -> LeftWorktree:
        """Moves the session back; removes the worktree where that is asked for and nothing is lost, or `discard`."""
        ...


class NoWorktrees:
    """There are no worktrees, as in a program that only uses the tools."""

    async def enter(self, name: str | None) -> EnteredWorktree:
        raise WorktreeRefused("No worktrees are made here.")

    async def leave(self, *, remove: bool, discard: bool) -> LeftWorktree:
        raise WorktreeRefused("This session is in no worktree that it made.")


@dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent: what it is for, how it is instructed, and what it may use."""

    name: str
    description: str
    """For the model that chooses: what it is for."""
    instructions: str
    """Its part of the system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of its tools; null: those of the session that it works for. It has an Agent tool only where named here."""
    model: str | None = None
    """A model, or a name as `haiku`; null: that of the session that it works for."""
    mode: Mode | None = None
    """Its permission mode, where it is to be narrower."""
    max_budget_usd: str | None = None
    """What one agent of it may cost, within what its parent has left."""
    source: str = "built-in"
    path: str | None = None
    """The file that it comes from."""


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What an agent is to do, and within which bounds: each only narrows what its parent has."""

    description: str
    prompt: str
    kind: str
    name: str | None = None
    model: str | None = None
    mode: Mode | None = None
    folder: str | None = None
    max_requests: int | None = None
    tools: tuple[str, ...] | None = None
    background: bool = False
    """Nobody waits for it: it is a background task."""
    skill: str | None = None
    """The skill that it works on: what that allows is allowed to it."""
    resume: str | None = None
    """An agent of the session's own that goes on with this, knowing what it knew."""
    isolated: bool = False
    """It works in a git worktree of its own, which goes at its end where nothing was changed in it."""


@dataclass(frozen=True, slots=True)
class AgentProgress:
    """How far an agent is."""

    agent_id: SessionId | None
    """None while it waits for a place."""
    elapsed_ms: int
    tool_calls: int
    text: str
    """What it has said last."""
    call: str | None = None
    """What it does now, in one line."""
    status: Literal["queued", "running", "stalled"] = "running"
    """`stalled`: nothing has happened in it for long, as `text` says."""


AgentStatus = Literal["completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class AgentWorktree:
    """What became of the worktree of an agent."""

    path: str
    branch: str | None
    kept: bool
    why: str
    """One sentence for people and the model."""


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """How an agent ended."""

    agent_id: SessionId
    status: AgentStatus
    result: str
    """Its last words; of one that did not complete, what it has so far."""
    error: str | None
    usage: Usage
    tool_calls: int
    duration_ms: int
    worktree: AgentWorktree | None = None
    """Of one that had a worktree of its own."""


@dataclass(frozen=True, slots=True)
class AgentLaunched:
    """An agent that goes on in the background."""

    agent_id: SessionId
    task_id: TaskId


class AgentRefused(Exception):
    """The agent cannot be started; the message is for the model."""


class Agents(Protocol):
    """The agents that work for the session."""

    async def run(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentOutcome | AgentLaunched:
        """Starts an agent and waits for its end; where the call is cancelled, the agent is stopped first.

        One in the background is not waited for, and one that takes long goes there.

        Raises AgentRefused.
        """
        ...


class NoAgents:
    """There are no agents, as in a program that only uses the tools."""

    async def run(self, request: AgentRequest, report: Callable[[AgentProgress], None]) -> AgentOutcome | AgentLaunched:
        raise AgentRefused("No agents work here.")


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that is kept for the people; it can be found only once its call has ended."""

    id: ResultId
    name: str
    media_type: str
    size: int


class Attachments(Protocol):
    """Keeps files that are sent to the people."""

    async def keep(self, name: str, chunks: Iterator[bytes]) -> SentFile:
        """Stores a file, piece by piece, each read on a thread; raises the OSError of reading it."""
        ...


class NoAttachments:
    """Nothing is kept, as in a program that only uses the tools."""

    async def keep(self, name: str, chunks: Iterator[bytes]) -> SentFile:
        raise OSError(0, "nothing is kept here")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A page that a search has found."""

    title: str
    url: str
    snippet: str = ""
    """Some of its words, where the provider shows any."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a search has found."""

    provider: str
    hits: tuple[SearchHit, ...]
    commentary: str = ""
    """What the provider itself says to it."""


class SearchFailed(Exception):
    """The web could not be searched; the message is for the model."""


class WebSearcher(Protocol):
    """A provider of searches. All of them are asked the same, and answer the same."""

    async def search(self, query: str, allowed: Sequence[str], blocked: Sequence[str], limit: int) -> SearchAnswer:
        """Raises SearchFailed. `allowed`: only pages of these hosts and below; `blocked`: none of those."""
        ...


class Web(WebSearcher, Protocol):
    """What the daemon does for tools that read the web."""

    async def answer(self, question: str, text: str) -> str | None:
        """What the small model says to a question about a text; null where there is none, or it failed."""
        ...


class NoWeb:
    """Nobody answers, as in a program that only uses the tools: who asks gets the text itself."""

    async def answer(self, question: str, text: str) -> str | None:
        return None

    async def search(self, query: str, allowed: Sequence[str], blocked: Sequence[str], limit: int) -> SearchAnswer:
        raise SearchFailed("The web is not searched here.")


class ProfileSnapshot(Protocol):
    """What the person's shell profile changes in a shell."""

    @property
    def definitions(self) -> str | None:
        """A file with its functions and aliases; null where it has none."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The names of its functions and aliases."""
        ...

    def may_be_used_by(self, command: str) -> bool:
        """Whether a command may use what it defines."""
        ...

    def apply_to(self, environment: Mapping[str, str]) -> dict[str, str]: ...


class ShellProfile(Protocol):
    """The person's shell profile, cached until one of its files changes."""

    def get_cached(self) -> ProfileSnapshot | None:
        """The cached snapshot, without a look at the disk; null where it is time for one."""

    async def load_current(self) -> ProfileSnapshot:
        """Checks whether a file has changed, and sources them again where one has."""
        ...


class ServerCallFailed(Exception):
    """An MCP server could not be asked, or said no; the message is for the model."""


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a tool of an MCP server gave."""

    content: Sequence[Any]
    """As the server gave it."""
    structured: Any = None
    meta: Any = None
    is_error: bool = False


class Servers(Protocol):
    """The MCP servers of the session."""

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any], progress: Callable[[dict[str, Any]], None]
    ) -> ServerAnswer:
        """Calls a tool by the server's own name for it. Raises ServerCallFailed."""
        ...

    async def list_resources(self, server: str) -> list[dict[str, Any]]:
        """Its resources and their templates, as the server gives them. Raises ServerCallFailed."""
        ...

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource, as the server gives them. Raises ServerCallFailed."""
        ...


class NoServers:
    """There are none, as in a program that only uses the tools."""

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any], progress: Callable[[dict[str, Any]], None]
    ) -> ServerAnswer:
        raise ServerCallFailed(f"There is no MCP server {server!r} here.")

    async def list_resources(self, server: str) -> list[dict[str, Any]]:
        raise ServerCallFailed(f"There is no MCP server {server!r} here.")

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        raise ServerCallFailed(f"There is no MCP server {server!r} here.")


@dataclass(frozen=True, slots=True)
class DeferredTool:
    """A tool that may be left out of the prompt, as it is looked for."""

    name: str
    description: str
    hint: str = ""
    aliases: tuple[str, ...] = ()


class Discovery(Protocol):
    """The tools of the session that are left out of the prompt until the model looks for them."""

    def list_tools(self) -> list[DeferredTool]:
        """All of them, those that were loaded since included."""
        ...

    def load(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Loads tools for the rest of the session; returns the blocks by which the model gets to know them."""
        ...


class NoDiscovery:
    """Nothing is left out, as in a program that only uses the tools."""

    def list_tools(self) -> list[DeferredTool]:
        return []

    def load(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return []


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill: instructions that are kept in a file."""

    name: str
    description: str
    path: str
    allowed: tuple[str, ...] = ()
    """Rules that allow for the rest of the turn in which it is used."""
    model: str | None = None
    context: Literal["inline", "fork"] = "inline"
    agent: str | None = None
    """The kind of agent that works on it, where the context is `fork`."""
    by_model: bool = True
    """The model may use it by itself."""


@dataclass(frozen=True, slots=True)
class OpenedSkill:
    """A skill with its text, the arguments filled in."""

    info: SkillInfo
    text: str


class SkillRefused(Exception):
    """The skill cannot be used; the message is for the model."""


class Skills(Protocol):
    """The skills that the session has."""

    def list_skills(self) -> list[SkillInfo]: ...
    def find(self, name: str) -> SkillInfo | None: ...

    def was_asked_for(self, name: str) -> bool:
        """Whether a person has asked for it in this turn."""
        ...

    async def open(self, name: str, arguments: str) -> OpenedSkill:
        """Reads it. Raises SkillRefused."""
        ...

    def take_up(self, skill: SkillInfo) -> None:
        """From now on, until the turn ends, what it allows is allowed, and its model answers."""
        ...


class NoSkills:
    """There are no skills, as in a program that only uses the tools."""

    def list_skills(self) -> list[SkillInfo]:
        return []

    def find(self, name: str) -> SkillInfo | None:
        return None

    def was_asked_for(self, name: str) -> bool:
        return False

    async def open(self, name: str, arguments: str) -> OpenedSkill:
        raise SkillRefused(f"There is no skill {name!r} here.")

    def take_up(self, skill: SkillInfo) -> None:
        return None


@dataclass(frozen=True, slots=True)
class FileServices:
    """What the daemon knows of the files that a session reads and changes."""

    reads: FileReads
    history: FileHistory = field(default_factory=NoHistory)
    diagnostics: Diagnostics = field(default_factory=NoDiagnostics)


@dataclass(frozen=True, slots=True)
class Services:
    """What the daemon does for the tools of a call: one field for each family."""

    files: FileServices
    processes: Processes
    results: StoredResults = field(default_factory=NoResults)
    """Results of earlier calls that were too long to be shown whole."""
    tasks: Tasks = field(default_factory=NoTasks)
    todos: Todos = field(default_factory=NoTodos)
    worktrees: Worktrees = field(default_factory=NoWorktrees)
    agents: Agents = field(default_factory=NoAgents)
    web: Web = field(default_factory=NoWeb)
    attachments: Attachments = field(default_factory=NoAttachments)
    discovery: Discovery = field(default_factory=NoDiscovery)
    skills: Skills = field(default_factory=NoSkills)
    servers: Servers = field(default_factory=NoServers)

    def with_reads(self, reads: FileReads) -> "Services":
        """The same with another memory of what was read."""
        return replace(self, files=replace(self.files, reads=reads))
