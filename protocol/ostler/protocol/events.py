"""What the daemon tells: the envelope, and one table of event types."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.protocol.brief import Brief
from ostler.protocol.client import Client, ClientCall
from ostler.protocol.hook import HookData
from ostler.protocol.ids import CallId, Cursor, MessageId, SessionId, TaskId, TurnId
from ostler.protocol.session import Session
from ostler.protocol.shapes import Ask, Call, Message, Task, Turn, Usage
from ostler.protocol.todo import Todo
from ostler.protocol.wire import Shape, Time


class Event(Shape):
    """A line of the log, or something said in passing."""

    cursor: Cursor | None
    """Its place in the log; null for what is not stored."""
    after: Cursor | None = None
    """Of what is not stored: the last stored cursor before it."""
    session_id: SessionId | None
    """The session that it is about; null for what is about the daemon."""
    root_id: SessionId | None
    """The session at the top: the same for its agents."""
    turn_id: TurnId | None = None
    """The turn that it belongs to."""
    time: Time
    """When it happened."""
    type: str
    """What happened."""
    data: dict[str, Any]
    """The whole new state of the thing wherever that is small; its shape goes by the type."""


class SessionData(Shape):
    """A session has changed."""

    session: Session
    """As it is now; of a deleted one, as it was last, without what people wrote into it."""


class TurnData(Shape):
    """A turn has changed."""

    turn: Turn
    """As it is now."""


class MessageData(Shape):
    """A message has changed."""

    message: Message
    """As it is now."""


class MessageDelta(Shape):
    """A piece of a message in progress."""

    message_id: MessageId
    """Which message."""
    index: int
    """Which block of the message."""
    kind: Literal["text", "thinking", "tool_input"]
    """What sort of text it is; `tool_input` is JSON that is not whole yet."""
    offset: int
    """Where in the block's text it belongs: a reader that gets it again drops it."""
    text: str
    """The piece."""


class CallData(Shape):
    """A call has changed."""

    call: Call
    """As it is now."""


class ToolProgress(Shape):
    """How far a call has come."""

    call_id: CallId
    """Which call."""
    parent_call_id: CallId | None = None
    """The call that made it, if one did."""
    kind: Literal["shell", "agent", "mcp", "search", "skill"]
    """What sort of progress it is."""
    elapsed_ms: int
    """How long it has been running."""
    data: dict[str, Any]
    """What there is to show; its form goes by the kind.

    `shell`: `output`, what was printed since the last time, or of very much the end of it; `offset`, how many
    characters were printed before that; `lines`, how many lines so far.
    """


class AskData(Shape):
    """An ask has changed."""

    ask: Ask
    """As it is now."""


class TaskData(Shape):
    """A task has changed."""

    task: Task
    """As it is now."""


class TaskOutput(Shape):
    """What a task printed."""

    task_id: TaskId
    """Which task."""
    offset: int
    """Where in its output the text begins."""
    text: str
    """The piece."""


class TodoData(Shape):
    """A work list has changed."""

    todos: list[Todo]
    """All items, in the order of the list."""


class Notice(Shape):
    """Words for the people."""

    level: Literal["info", "warning", "error"]
    """How much it matters."""
    text: str
    """What to show."""


class FileChange(Shape):
    """A call changed a file."""

    path: str
    """The file."""
    patch: str | None
    """What changed, as a patch; null where it is too long to show."""
    call_id: CallId | None
    """The call that did it."""


class GitCommit(Shape):
    """A commit that was made."""

    sha: str
    """Its name, as git printed it."""
    kind: Literal["committed", "amended", "cherry-picked"]
    """How it came to be."""


class GitPush(Shape):
    """A branch that was pushed."""

    branch: str
    """Its name on the other side."""


class GitBranch(Shape):
    """What became of the branch."""

    ref: str
    """What was merged into it, or what it was rebased onto."""
    action: Literal["merged", "rebased"]
    """Which of the two."""


class PullRequest(Shape):
    """What was done to a pull or merge request."""

    number: int | None = None
    """Its number, where it is known."""
    url: str | None = None
    """Its address, where it is known."""
    action: Literal["created", "edited", "merged", "commented", "closed", "ready"]
    """What was done to it."""


class GitChange(Shape):
    """A command changed a repository, or a pull request of its host."""

    call_id: CallId | None
    """The call that did it."""
    commit: GitCommit | None = None
    """The last commit that it made."""
    push: GitPush | None = None
    """The last branch that it pushed."""
    branch: GitBranch | None = None
    """What it merged, or rebased onto."""
    pr: PullRequest | None = None
    """The pull request that it changed. A created one is added to `pr` in the session's metadata."""


class ModelRetry(Shape):
    """A request to the model failed and is made again."""

    attempt: int
    """Which try failed: the first is 1."""
    max_retries: int
    """How many more tries there are at the most, after the first."""
    wait_ms: int
    """How long until the next."""
    error: dict[str, Any]
    """Why: a word in `code`, a `message`, and the provider's `status` and `request_id` where it gave them."""


class UsageData(Shape):
    """A request to the model has been paid for."""

    model: str
    """The model."""
    request: Usage
    """What the request took."""
    turn: Usage
    """What its turn has taken so far; zeros for a request outside a turn, as of a hook."""
    session: Usage
    """What its session has taken so far."""


class ContextCompacted(Shape):
    """What the model is sent of a conversation has become less; what people see has not."""

    before_tokens: int
    """How much of the window a request took."""
    after_tokens: int
    """How much it takes now: an estimate, until the provider has counted."""
    cleared_results: int
    """How many old results stand there as one line each."""
    summarised: bool
    """A summary stands in the place of the messages before."""
    message_id: MessageId | None
    """The summary; null where results were cleared only."""
    trigger: Literal["auto", "manual"]
    """The window was filling up, or somebody asked for it."""


class ClientData(Shape):
    """A client came or went."""

    client: Client
    """As it is now."""


class ConfigData(Shape):
    """A setting changed."""

    key: str
    """The dotted name."""
    value: Any
    """What it is now."""
    applies: Literal["now", "restart"]
    """`now`, or only after a `restart`."""


class McpChange(Shape):
    """An MCP server of a session is in another state; `mcp/list` has the rest."""

    name: str
    """The server."""
    status: Literal["stopped", "starting", "connected", "failed"]
    """How it is now."""
    error: str | None = None
    """Why it failed."""


class StreamEnd(Shape):
    """Why a stream ends here, and where to go on."""

    cursor: Cursor
    """Lagged: reconnect from here. Reset: the end of the log now."""
    reason: str
    """What happened, for people."""


@dataclass(frozen=True, slots=True)
class EventType:
    name: str
    data: type[Shape]
    when: str
    stored: bool = True
    """Stored events have a cursor and are replayed; the others are said once."""
    by_reference: bool = False
    """The stored line names its message, call, ask or turn instead of copying it."""


EVENT_TYPES: Final[dict[str, EventType]] = {
    kind.name: kind
    for kind in (
        EventType("session.created", SessionData, "A session was created or forked."),
        EventType("session.updated", SessionData, "Mode, model, title, status or another field changed."),
        EventType("session.deleted", SessionData, "A session is gone, with everything of it."),
        EventType("turn.queued", TurnData, "A turn waits for the one before it."),
        EventType("turn.started", TurnData, "A turn began."),
        EventType("turn.updated", TurnData, "A turn went from running to waiting, or back."),
        EventType("turn.ended", TurnData, "A turn is over; `reason` says how.", by_reference=True),
        EventType("message.started", MessageData, "The model began to answer."),
        EventType("message.delta", MessageDelta, "A piece of the message in progress.", stored=False),
        EventType("message.completed", MessageData, "A message is whole; this is the truth.", by_reference=True),
        EventType("message.aborted", MessageData, "A message in progress was dropped."),
        EventType(
            "tool.queued",
            CallData,
            "A call waits for its place or its permission; in the order of the model's calls.",
            by_reference=True,
        ),
        EventType("tool.started", CallData, "A call has its permission and runs.", by_reference=True),
        EventType("tool.progress", ToolProgress, "A running call shows how far it is.", stored=False),
        EventType(
            "tool.completed",
            CallData,
            "A call has its result; in the order in which calls end, not in which they were made. It comes again where "
            "all results of a message are too long together and its own is kept.",
            by_reference=True,
        ),
        EventType("ask.opened", AskData, "A question to the people.", by_reference=True),
        EventType("ask.resolved", AskData, "An ask was answered, cancelled or expired.", by_reference=True),
        EventType("task.started", TaskData, "A background task runs."),
        EventType("task.output", TaskOutput, "A background task printed something.", stored=False),
        EventType("task.ended", TaskData, "A background task is over."),
        EventType("todo.changed", TodoData, "The work list of a session has changed."),
        EventType("hook.ran", HookData, "A hook has run; what it said, and how it ended."),
        EventType("file.changed", FileChange, "A call changed a file."),
        EventType("brief.sent", Brief, "The agent has sent the people a message, perhaps with files."),
        EventType("git.changed", GitChange, "A command committed, pushed, merged, or changed a pull request."),
        EventType("model.retrying", ModelRetry, "A request to the model failed, and is made again after a while."),
        EventType("usage.updated", UsageData, "A request to the model has ended, and this is what it took."),
        EventType("context.compacted", ContextCompacted, "Old results were cleared, or a conversation summarised."),
        EventType("notice", Notice, "Words for the people."),
        EventType("client.attached", ClientData, "A client opened an event stream.", stored=False),
        EventType("client.detached", ClientData, "A client's event stream ended.", stored=False),
        EventType("client.call", ClientCall, "A client-side tool is wanted from one client.", stored=False),
        EventType("mcp.changed", McpChange, "An MCP server of a session came, failed or went.", stored=False),
        EventType("config.changed", ConfigData, "A setting of the daemon changed."),
        EventType(
            "stream.lagged",
            StreamEnd,
            "This reader fell behind and is cut; reconnect from the cursor in it.",
            stored=False,
        ),
        EventType(
            "stream.reset",
            StreamEnd,
            "The cursor asked for is unknown here; take `session/get` and go on from its cursor.",
            stored=False,
        ),
    )
}
