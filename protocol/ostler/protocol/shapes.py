"""The things that the wire speaks of: turn, message, call, ask, task, usage. The session has a page of its own."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from ostler.protocol.content import ContentBlock
from ostler.protocol.ids import (
    AskId,
    CallId,
    ClientId,
    Cursor,
    MessageId,
    ResultId,
    SessionId,
    TaskId,
    TurnId,
)
from ostler.protocol.wire import Shape, Time, Usd


class Usage(Shape):
    """Tokens and money, summed over model requests."""

    input_tokens: int = 0
    """Tokens sent that were not in the cache."""
    output_tokens: int = 0
    """Tokens that the model wrote."""
    cache_read_tokens: int = 0
    """Tokens sent that were in the cache."""
    cache_write_tokens: int = 0
    """Tokens put into the cache."""
    cost_usd: Usd | None = "0"
    """Null where the price of a model is unknown."""


class AskingAgent(Shape):
    """What an agent is called: the one that an ask or a refused call comes from, or that a session is."""

    name: str | None = None
    """Its name, or what it does in a few words."""
    kind: str
    """What kind of agent it is."""


class Denial(Shape):
    """A call that was refused, and the rule that would have let it pass."""

    tool: str
    """The tool that was to be used."""
    input: dict[str, Any]
    """What it was to be given."""
    reason: str
    """Why it was refused."""
    allow_with: str | None = None
    """A rule that would have allowed it, or null where none could."""
    agent: AskingAgent | None = None
    """Whose call it was, where an agent made it."""


TurnStatus = Literal["queued", "running", "waiting", "ended"]
TurnReason = Literal[
    "completed", "interrupted", "failed", "max_requests", "budget", "timeout", "schema", "stopped_by_hook"
]


class Turn(Shape):
    """One input and all that the agent does about it."""

    id: TurnId
    """Its name: `t_` and letters that sort by time."""
    session_id: SessionId
    """The session that it belongs to."""
    status: TurnStatus
    """`waiting`: an ask is open."""
    reason: TurnReason | None = None
    """How it ended; null until then."""
    error: dict[str, Any] | None = None
    """Of a failed turn: a word in `code`, a `message`, and what else is known."""
    result_text: str | None = None
    """The model's last words."""
    structured_output: Any = None
    """The answer in the form of the schema that was asked for."""
    model_requests: int = 0
    """Requests made to the model."""
    tool_calls: int = 0
    """Calls made."""
    usage: Usage = Field(default_factory=Usage)
    """Tokens and money of this turn."""
    denials: list[Denial] = []
    """The calls that were refused."""
    started_at: Time | None = None
    """When it began; null while it is queued."""
    ended_at: Time | None = None
    """When it ended."""
    cursor: Cursor
    """The place in the log where it began, or was queued: follow it with `/events?session=…&after=CURSOR`."""


class Message(Shape):
    """One user or assistant entry of the history."""

    id: MessageId
    """Its name: `m_` and letters that sort by time."""
    session_id: SessionId
    """The session that it belongs to."""
    turn_id: TurnId | None = None
    """The turn that it came from; null in a fork."""
    role: Literal["user", "assistant"]
    """Who speaks. Tool results are messages of the user's."""
    content: list[ContentBlock]
    """Blocks, as the Messages API has them."""
    model: str | None = None
    """The model that wrote it."""
    stop_reason: str | None = None
    """Why the model stopped, in the API's own word."""
    source_call_id: CallId | None = None
    """The call that put it into the history, if one did."""
    summary: bool = False
    """It stands, for the model, in the place of messages before it: the conversation was compacted here."""
    created_at: Time
    """When it was stored."""


class Decision(Shape):
    """What the permission engine said about a call, and why."""

    behavior: Literal["allow", "ask", "deny"]
    """What was said."""
    by: str
    """What decided: a rule, a mode, a hook, the tool itself, a person."""
    rule: str | None = None
    """The rule, where one decided."""
    source: str | None = None
    """Where the rule comes from, or who decided."""
    reason: str | None = None
    """Why, for people."""
    decided_at: Time | None = None
    """When it was said; null in what older versions stored."""


CallStatus = Literal["queued", "waiting", "running", "completed"]


class McpTarget(Shape):
    """A tool of an MCP server, by the names that the server knows."""

    server: str
    """The server, as its entry is called."""
    tool: str
    """The server's own name for the tool."""


class Call(Shape):
    """One tool_use and its result."""

    call_id: CallId
    """The id of its message, `#`, and its place among the blocks."""
    tool_use_id: str
    """The model's own id for it; models repeat these."""
    parent_call_id: CallId | None = None
    """The call that made this one, if one did."""
    session_id: SessionId
    """The session that it belongs to."""
    turn_id: TurnId | None = None
    """The turn that it belongs to; null for a call that a person made."""
    tool: str
    """The tool."""
    input: dict[str, Any]
    """What the tool is given, as it stands after hooks and people changed it."""
    summary: str = ""
    """One line for people."""
    activity: str = "other"
    """search, read, list, edit, run or other: clients fold by it."""
    interrupt: Literal["cancel", "block"] = "cancel"
    """What an interrupt does to it: it stops now, or it finishes first."""
    status: CallStatus
    """`waiting`: an ask is open."""
    is_error: bool = False
    """It failed, and the content says how."""
    error_code: int | None = None
    """Of a call that a tool refused: the tool's own number for the reason, so that nobody has to read the words."""
    output: Any = None
    """What the tool gave, in its own form."""
    content: list[dict[str, Any]] | None = None
    """What the model is given: blocks."""
    result_id: ResultId | None = None
    """Where the whole result is, if it was too large to be given here."""
    decision: Decision | None = None
    """What permission said; null until it did."""
    started_at: Time | None = None
    """When it began to run."""
    duration_ms: int | None = None
    """How long it ran."""
    mcp: McpTarget | None = None
    """Of a tool of an MCP server: which."""


class RunningCall(Call):
    """A call that runs, with the end of what it has printed."""

    output: str = ""
    """The last 65,536 characters that it printed, as far as `tool.progress` has told of them."""
    output_offset: int = 0
    """How many characters it printed before those: `tool.progress` counts in the same way."""
    elapsed_ms: int = 0
    """How long it has been running."""


AskKind = Literal["permission", "question", "plan", "elicitation", "trust"]
AskStatus = Literal["open", "resolved", "cancelled", "expired"]


class AskedCall(Shape):
    """The call that an ask is about."""

    call_id: CallId
    """Which call."""
    tool: str
    """The tool."""
    input: dict[str, Any]
    """What it would be given."""
    summary: str = ""
    """One line for people."""


class Suggestion(Shape):
    """A rule that would answer asks like this one from now on."""

    rule: str
    """The rule, as it would be written down."""
    scope: Literal["session", "local", "project", "user"]
    """How far it would reach: this session, or the settings that it would be written to."""


class Ask(Shape):
    """A question to the people; the first answer wins."""

    # `schema` is a name that pydantic's own models still have, so the field is called `schema_` inside.
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    id: AskId
    """Its name: `k_` and letters that sort by time."""
    session_id: SessionId
    """The session that asks."""
    root_id: SessionId
    """The session at the top: where an agent's asks are shown."""
    turn_id: TurnId | None = None
    """The turn that waits for it."""
    agent: AskingAgent | None = None
    """Who asks, when it is an agent."""
    kind: AskKind
    """What it is about; it says which of the fields below are filled."""
    status: AskStatus
    """Whether it can still be answered, and how it ended."""
    call: AskedCall | None = None
    """Permission: the call that waits."""
    message: str = ""
    """The question, for people."""
    reason: str | None = None
    """Why it is asked."""
    destructive: bool = False
    """What it does cannot be undone."""
    diff: str | None = None
    """The change to a file, as a patch."""
    bound_to: str | None = None
    """A digest of what the answer is about beside what is shown, as a folder or the content of a script."""
    choices: list[str]
    """What can be answered, as the `choice` of the answer."""
    suggestions: list[Suggestion] = []
    """Permission: rules with which the very same call would pass from now on; none where no rule would help."""
    questions: list[dict[str, Any]] | None = None
    """Question: what the model wants to know."""
    plan: str | None = None
    """Plan: what the model proposes."""
    path: str | None = None
    """Plan: the file that holds it."""
    allowed_prompts: list[dict[str, Any]] | None = None
    """Plan: what it asks to be allowed along with it."""
    server: str | None = None
    """Elicitation: the MCP server that asks."""
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    """Elicitation: the JSON Schema of what it wants."""
    url: str | None = None
    """Elicitation: the page to go to."""
    folder: str | None = None
    """Trust: the folder."""
    what: list[dict[str, Any]] | None = None
    """Trust: what the folder brings that would act."""
    opened_at: Time
    """When it was asked."""
    expires_at: Time | None = None
    """When it counts as denied; null is never."""
    answer: dict[str, Any] | None = None
    """What was answered; null until then."""
    answered_by: ClientId | str | None = None
    """Who answered: a client, or what else settled it."""
    answered_by_name: str | None = None
    """The name and kind that the client which answered introduced itself with, as `zed (ide)`; null for all others."""
    answered_at: Time | None = None
    """When it was answered or settled otherwise; null until then, and in what older versions stored."""


TaskStatus = Literal["pending", "running", "completed", "failed", "killed"]


class TaskResource(Shape):
    """Something that an MCP server tells of."""

    server: str
    """The server's name in the session's settings."""
    digest: str
    """SHA-256 of its entry there: another one under this name is not watched."""
    uri: str
    """The resource, as the server calls it."""


class Task(Shape):
    """Something that runs in the background."""

    id: TaskId
    """A letter for its type, and eight at random."""
    type: str
    """What runs: `local_bash`, `local_agent` and so on."""
    status: TaskStatus
    """The last three are final."""
    description: str = ""
    """One line for people."""
    session_id: SessionId
    """The session that it belongs to."""
    agent_id: SessionId | None = None
    """Of an agent's task: the agent's session."""
    call_id: CallId | None = None
    """The call that started it."""
    tool_use_id: str | None = None
    """The same by the model's name for it."""
    command: str | None = None
    """Of a shell task: the command."""
    resource: TaskResource | None = None
    """Of a monitor on a resource of an MCP server: which."""
    exit_code: int | None = None
    """Of a shell task: how the command ended."""
    error: str | None = None
    """What went wrong, if something did."""
    started_at: Time
    """When it began."""
    ended_at: Time | None = None
    """When it ended."""
    paused_ms: int = 0
    """How long it was paused meanwhile. Only agents can be: a command runs or is over."""
    output_bytes: int = 0
    """How much it has printed."""
    output_offset: int = 0
    """How much of that the model has read."""
    notified: bool = False
    """The model knows of its end. In events it is false: they come before that."""
