"""What happens in a session, as types: `match` on them, and a type checker knows what each one holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pydantic import ValidationError

from ostler.clients.sdk.errors import UnexpectedAnswer
from ostler.protocol.brief import Brief
from ostler.protocol.events import (
    AskData,
    CallData,
    ContextCompacted,
    Event,
    FileChange,
    GitChange,
    McpChange,
    MessageData,
    MessageDelta,
    ModelRetry,
    Notice,
    SessionData,
    TaskData,
    TaskOutput,
    TodoData,
    ToolProgress,
    TurnData,
    UsageData,
)
from ostler.protocol.hook import HookData, HookRun
from ostler.protocol.session import Session
from ostler.protocol.shapes import Ask, Call, Message, Task, Turn
from ostler.protocol.todo import Todo
from ostler.protocol.wire import Shape

D = TypeVar("D", bound=Shape)


@dataclass(frozen=True, slots=True)
class TurnChanged:
    """A turn was queued, began, or went from running to waiting or back."""

    event: Event
    turn: Turn


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over; `turn.reason` says how."""

    event: Event
    turn: Turn


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model began to answer."""

    event: Event
    message: Message


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what the model says."""

    event: Event
    piece: MessageDelta

    @property
    def text(self) -> str:
        return self.piece.text


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of what the model thinks."""

    event: Event
    piece: MessageDelta

    @property
    def text(self) -> str:
        return self.piece.text


@dataclass(frozen=True, slots=True)
class InputDelta:
    """A piece of what a tool will be given: JSON that is not whole yet."""

    event: Event
    piece: MessageDelta

    @property
    def text(self) -> str:
        return self.piece.text


@dataclass(frozen=True, slots=True)
class MessageCompleted:
    """A message is whole: the truth, where deltas were for the eye. Input and tool results have role `user`."""

    event: Event
    message: Message


@dataclass(frozen=True, slots=True)
class MessageAborted:
    """A message in progress was dropped; what was shown of it does not count."""

    event: Event
    message: Message


@dataclass(frozen=True, slots=True)
class CallQueued:
    """A call waits for its place, or for its permission."""

    event: Event
    call: Call


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call has its permission and runs."""

    event: Event
    call: Call


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a running call has come."""

    event: Event
    progress: ToolProgress


@dataclass(frozen=True, slots=True)
class CallCompleted:
    """A call has its result."""

    event: Event
    call: Call


@dataclass(frozen=True, slots=True)
class AskOpened:
    """A question to the people."""

    event: Event
    ask: Ask


@dataclass(frozen=True, slots=True)
class AskEnded:
    """An ask was answered, cancelled, or nobody answered in time."""

    event: Event
    ask: Ask


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A command goes on in the background."""

    event: Event
    task: Task


@dataclass(frozen=True, slots=True)
class TaskPrinted:
    """A background task has printed something; `Ostler.printed` gives all of it."""

    event: Event
    output: TaskOutput


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A background task is over; `task.status` says how."""

    event: Event
    task: Task


@dataclass(frozen=True, slots=True)
class TodosChanged:
    """The work list has changed."""

    event: Event
    todos: list[Todo]


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A call changed a file."""

    event: Event
    change: FileChange


@dataclass(frozen=True, slots=True)
class BriefSent:
    """The agent has sent the people a message; `Ostler.result` downloads what is attached to it."""

    event: Event
    brief: Brief


@dataclass(frozen=True, slots=True)
class GitChanged:
    """A command committed, pushed, merged, or changed a pull request."""

    event: Event
    change: GitChange


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """An MCP server of the session came, failed or went."""

    event: Event
    change: McpChange


@dataclass(frozen=True, slots=True)
class Retrying:
    """A request to the model failed, and is made again after a while."""

    event: Event
    retry: ModelRetry


@dataclass(frozen=True, slots=True)
class UsageUpdated:
    """A request to the model has ended, and this is what it took."""

    event: Event
    usage: UsageData


@dataclass(frozen=True, slots=True)
class HookRan:
    """A hook has run; `run.outcome` says what came of it."""

    event: Event
    run: HookRun


@dataclass(frozen=True, slots=True)
class Compacted:
    """What the model is sent of a conversation has become less."""

    event: Event
    compacted: ContextCompacted


@dataclass(frozen=True, slots=True)
class Noticed:
    """A notice for people."""

    event: Event
    notice: Notice


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A session was created, changed or deleted."""

    event: Event
    session: Session


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """An event of a kind that has no type here, or that this version does not know."""

    event: Event


TurnEvent = (
    TurnChanged
    | TurnEnded
    | MessageStarted
    | TextDelta
    | ThinkingDelta
    | InputDelta
    | MessageCompleted
    | MessageAborted
    | CallQueued
    | CallStarted
    | CallProgress
    | CallCompleted
    | AskOpened
    | AskEnded
    | TaskStarted
    | TaskPrinted
    | TaskEnded
    | TodosChanged
    | FileChanged
    | BriefSent
    | GitChanged
    | ServerChanged
    | Retrying
    | UsageUpdated
    | HookRan
    | Compacted
    | Noticed
    | SessionChanged
    | OtherEvent
)
"""All of them."""


def typed(event: Event) -> TurnEvent:
    """The event as its own type."""
    make = _READERS.get(event.type, OtherEvent)
    try:
        return make(event)
    except ValidationError as wrong:
        raise UnexpectedAnswer(f"A {event.type!r} event is not what this version knows: {wrong}") from wrong


def _make_reader(
    data: type[D], make: Callable[[Event, Any], TurnEvent], field: str | None = None
) -> Callable[..., TurnEvent]:
    def read(event: Event) -> TurnEvent:
        found = data.model_validate(event.data)
        return make(event, found if field is None else getattr(found, field))

    return read


_DELTAS: Final[Mapping[Literal["text", "thinking", "tool_input"], type[TextDelta | ThinkingDelta | InputDelta]]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "tool_input": InputDelta,
}


def _read_delta(event: Event) -> TurnEvent:
    piece = MessageDelta.model_validate(event.data)
    return _DELTAS[piece.kind](event, piece)


_read_turn = _make_reader(TurnData, TurnChanged, "turn")
_read_session = _make_reader(SessionData, SessionChanged, "session")

_READERS: Final[dict[str, Callable[[Event], TurnEvent]]] = {
    "turn.queued": _read_turn,
    "turn.started": _read_turn,
    "turn.updated": _read_turn,
    "turn.ended": _make_reader(TurnData, TurnEnded, "turn"),
    "message.started": _make_reader(MessageData, MessageStarted, "message"),
    "message.delta": _read_delta,
    "message.completed": _make_reader(MessageData, MessageCompleted, "message"),
    "message.aborted": _make_reader(MessageData, MessageAborted, "message"),
    "tool.queued": _make_reader(CallData, CallQueued, "call"),
    "tool.started": _make_reader(CallData, CallStarted, "call"),
    "tool.progress": _make_reader(ToolProgress, CallProgress),
    "tool.completed": _make_reader(CallData, CallCompleted, "call"),
    "ask.opened": _make_reader(AskData, AskOpened, "ask"),
    "ask.resolved": _make_reader(AskData, AskEnded, "ask"),
    "task.started": _make_reader(TaskData, TaskStarted, "task"),
    "task.output": _make_reader(TaskOutput, TaskPrinted),
    "task.ended": _make_reader(TaskData, TaskEnded, "task"),
    "todo.changed": _make_reader(TodoData, TodosChanged, "todos"),
    "file.changed": _make_reader(FileChange, FileChanged),
    "brief.sent": _make_reader(Brief, BriefSent),
    "git.changed": _make_reader(GitChange, GitChanged),
    "mcp.changed": _make_reader(McpChange, ServerChanged),
    "model.retrying": _make_reader(ModelRetry, Retrying),
    "usage.updated": _make_reader(UsageData, UsageUpdated),
    "hook.ran": _make_reader(HookData, HookRan, "run"),
    "context.compacted": _make_reader(ContextCompacted, Compacted),
    "notice": _make_reader(Notice, Noticed),
    "session.created": _read_session,
    "session.updated": _read_session,
    "session.deleted": _read_session,
}
