"""The session, and what can be asked of one."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from ostler.protocol.agent import AgentInfo
from ostler.protocol.brief import Brief
from ostler.protocol.ids import Cursor, MessageId, SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_DIRECTORIES, MAX_PAGE, MAX_RULES
from ostler.protocol.shapes import Ask, AskingAgent, Message, RunningCall, Task, Turn, Usage
from ostler.protocol.wire import AtMost1000, JsonObject, Line, Name, Params, PathText, Shape, Text, Time, Usd

Mode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]
OnAsk = Literal["ask", "deny"]
SessionStatus = Literal["idle", "running", "waiting", "archived"]
ToolPreset = Literal["full", "minimal", "read-only"]


def _tag_tools(given: Any) -> str:
    return "names" if isinstance(given, list) else "preset"


# With names: an error would name the way through our validators in their place.
Tools = Annotated[
    Annotated[ToolPreset, Tag("preset")] | Annotated[list[Name], Field(max_length=500), Tag("names")],
    Discriminator(_tag_tools),
]

RuleText = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]
IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
Directories = Annotated[list[PathText], Field(max_length=MAX_DIRECTORIES)]


class Rules(Params):
    """Permission rules by what they do."""

    allow: Annotated[list[RuleText], Field(max_length=MAX_RULES)] = []
    """Calls that pass without an ask."""
    ask: Annotated[list[RuleText], Field(max_length=MAX_RULES)] = []
    """Calls that are always asked about."""
    deny: Annotated[list[RuleText], Field(max_length=MAX_RULES)] = []
    """Calls that are refused, whatever else says yes."""


class Session(Shape):
    """A conversation with its folder, mode, rules and history."""

    id: SessionId
    """Its name: `s_` and letters that sort by time."""
    cwd: str
    """The folder that it works in: the one that it was created in, or the git worktree that it has entered."""
    title: str | None = None
    """What people call it."""
    model: str
    """The model that answers."""
    provider: str
    """Where the model's answers come from."""
    mode: Mode
    """How permission is decided."""
    status: SessionStatus
    """`waiting`: an ask is open."""
    additional_directories: list[str] = []
    """Further folders that it may work in; none in a worktree."""
    parent_id: SessionId | None = None
    """Of an agent: the session that it works for."""
    root_id: SessionId
    """The session at the top; its own id unless it is an agent."""
    agent: AskingAgent | None = None
    """Of an agent: what it is called, and its kind."""
    on_ask: OnAsk
    """`deny`: whatever would be asked is refused."""
    trusted: bool = False
    """What the folder brings (settings, hooks, servers) counts; looked at when a turn begins or trust changes."""
    created_at: Time
    """When it was created."""
    updated_at: Time
    """When anything of it last changed."""
    cursor: Cursor
    """The place in the log that this state belongs to: follow the session from here."""
    turn: Turn | None = None
    """The turn that runs or waits, if any."""
    message: Message | None = None
    """The message in progress, as far as it has come. Only `session/get` has it; others follow `message.delta`."""
    calls: list[RunningCall] = []
    """The calls that run, each with the end of what it has printed. Only `session/get` has them."""
    agents: list[AgentInfo] = []
    """The agents that are at work for it. Only `session/get` has them."""
    tasks: list[Task] = []
    """What runs in the background, for its agents too. Only `session/get` has them."""
    briefs: list[Brief] = []
    """The last messages that it sent to the people, in assistant mode. Only `session/get` has them."""
    asks: list[Ask] = []
    """The open asks, its agents' included."""
    usage: Usage = Field(default_factory=Usage)
    """Tokens and money so far."""
    metadata: dict[str, Any] = {}
    """Free JSON of the client's own."""


class SessionOptions(Params):
    """What only a new session is given."""

    title: Line | None = None
    """What people call it."""
    rules: Rules = Field(default_factory=Rules, json_schema_extra={"default": {}})
    """Permission rules for this session."""
    trust: bool = False
    """Trust what the folder brings: its settings, hooks and servers."""
    tools: Tools = "full"
    """A preset, or names of tools. `minimal`: Bash, Read and Edit. `read-only`: what only looks."""
    additional_directories: Directories = []
    """Further folders that it may work in, as absolute paths."""
    instructions: Text | None = None
    """Words for the model, in addition to its own."""
    env: Annotated[dict[EnvName, Text], AtMost1000] = {}
    """Environment variables for its commands."""
    mcp_servers: JsonObject = {}
    """MCP servers by name, as in `.mcp.json`."""
    on_restart: Literal["interrupt", "resume"] = "interrupt"
    """What an unfinished turn does when the daemon comes back: end as interrupted, or go on by itself."""
    wake_on_task_end: bool | Literal["none", "agents", "all"] | None = None
    """Which ends start a turn when none runs: of agents in the background, or of all tasks. True: all; false: none.

    Null: those of agents while a client that can show asks is attached, as a chat is, else none.
    """
    metadata: JsonObject = {}
    """Free JSON of the client's own."""


class SessionCreate(SessionOptions):
    """What a new session starts with."""

    cwd: PathText
    """An absolute path to the folder that the session works in."""
    model: Name | None = None
    """Null: the daemon's default model."""
    mode: Mode = "default"
    """How permission is decided. `bypassPermissions` only where `permissions.allow_bypass` is on."""
    on_ask: OnAsk = "ask"
    """`deny`: whatever would be asked is refused, for sessions that nobody watches."""
    thinking: JsonObject | None = None
    """How the model may think, as the Messages API has it. Null: the model's default."""
    max_budget_usd: Usd | None = None
    """What all its turns together may cost."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same params within a day gives the same answer, also after a crash."""


class SessionList(Params):
    """Which sessions to list."""

    cwd: PathText | None = None
    """Only sessions that were created in this folder."""
    status: SessionStatus | None = None
    """Only sessions of this status."""
    text: Line | None = None
    """Only sessions with these letters in their title or folder, whatever the case."""
    archived: bool | None = False
    """True: only archived ones. Null: both."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class SessionPage(Shape):
    """Sessions, newest activity first."""

    sessions: list[Session]
    """The sessions of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class SessionRef(Params):
    """One session."""

    session_id: SessionId
    """Which session."""


class SessionUpdate(Params):
    """The fields to change. What is left out stays as it is; a null goes back to the default."""

    session_id: SessionId
    """Which session."""
    title: Line | None = None
    """What people call it."""
    model: Name | None = None
    """The model of the turns to come."""
    mode: Mode | None = None
    """How permission is decided from now on."""
    rules: Rules | None = None
    """Replaces all rules of the session."""
    additional_directories: Directories | None = None
    """Replaces the list."""
    on_ask: OnAsk | None = None
    """`deny`: whatever would be asked is refused."""
    metadata: JsonObject | None = None
    """Replaces the whole object."""


class SessionArchive(Params):
    """A session, and which way it goes."""

    session_id: SessionId
    """Which session."""
    archived: bool = True
    """False: takes it out of the archive."""


class SessionCompact(Params):
    """Which conversation to summarise, and what to keep of it."""

    session_id: SessionId
    """Which session; no turn may run in it."""
    instructions: Annotated[Text, Field(max_length=10_000)] | None = None
    """Words for whoever writes the summary: what matters."""


class SessionMessages(Params):
    """Which messages to list."""

    session_id: SessionId
    """Which session."""
    include_results: bool = True
    """False: tool results keep their place but lose their content."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page, at the most: a page also ends after about 4 MB."""
    page: str | None = None
    """The `next` of the page before."""


class MessagePage(Shape):
    """Messages, oldest first."""

    messages: list[Message]
    """The messages of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class SessionFork(Params):
    """Where to fork."""

    session_id: SessionId
    """Which session."""
    message_id: MessageId | None = None
    """The last message of the fork. Null: the last one there is."""
    title: Line | None = None
    """What people call the fork. Null: what they call the session that it came from."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same params within a day gives the same answer, also after a crash."""


ExportFormat = Literal["jsonl", "markdown", "json"]


class SessionExport(Params):
    """What to export, and how."""

    session_id: SessionId
    """Which session."""
    format: ExportFormat = "markdown"
    """One JSON object a line, a page to read, or one JSON object."""


class Export(Shape):
    """A session as one file."""

    session_id: SessionId
    """Which session."""
    format: ExportFormat
    """The format of the content."""
    filename: str
    """A name to save it under."""
    media_type: str
    """Its media type."""
    content: str
    """The whole file."""


class Deleted(Shape):
    """What went: the session and the agents that worked for it."""

    session_ids: list[SessionId]
    """The ids that name nothing any more."""
