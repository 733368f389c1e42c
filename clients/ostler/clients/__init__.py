"""The clients: the Python SDK and the `ostler` command.

async with connect() as ostler:
    session = await ostler.call(SESSION_CREATE, SessionCreate(cwd="/home/a/proj"))
    async with ostler.turn(session.id, "run the tests") as turn:
        async for event in turn:
            print(event)
    print(turn.result.result_text)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostler.clients.sdk.asks import OnAsk, refuse
    from ostler.clients.sdk.client import Ostler, connect
    from ostler.clients.sdk.errors import (
        AccessRefused,
        ClientError,
        DaemonNotRunning,
        DaemonUnreachable,
        StartFailed,
        UnexpectedAnswer,
    )
    from ostler.clients.sdk.events import EventStream, OnConnection
    from ostler.clients.sdk.turn import LiveTurn
    from ostler.clients.sdk.turn_events import (
        AskEnded,
        AskOpened,
        BriefSent,
        CallCompleted,
        CallProgress,
        CallQueued,
        CallStarted,
        Compacted,
        FileChanged,
        GitChanged,
        HookRan,
        InputDelta,
        MessageAborted,
        MessageCompleted,
        MessageStarted,
        Noticed,
        OtherEvent,
        Retrying,
        ServerChanged,
        SessionChanged,
        TaskEnded,
        TaskPrinted,
        TaskStarted,
        TextDelta,
        ThinkingDelta,
        TodosChanged,
        TurnChanged,
        TurnEnded,
        TurnEvent,
        UsageUpdated,
        typed,
    )

_ERRORS = "ostler.clients.sdk.errors"
_TURN_EVENTS = "ostler.clients.sdk.turn_events"
_HOMES = {
    "AccessRefused": _ERRORS,
    "AskEnded": _TURN_EVENTS,
    "AskOpened": _TURN_EVENTS,
    "CallCompleted": _TURN_EVENTS,
    "CallProgress": _TURN_EVENTS,
    "CallQueued": _TURN_EVENTS,
    "CallStarted": _TURN_EVENTS,
    "Compacted": _TURN_EVENTS,
    "ClientError": _ERRORS,
    "DaemonNotRunning": _ERRORS,
    "DaemonUnreachable": _ERRORS,
    "EventStream": "ostler.clients.sdk.events",
    "FileChanged": _TURN_EVENTS,
    "BriefSent": _TURN_EVENTS,
    "GitChanged": _TURN_EVENTS,
    "ServerChanged": _TURN_EVENTS,
    "HookRan": _TURN_EVENTS,
    "InputDelta": _TURN_EVENTS,
    "LiveTurn": "ostler.clients.sdk.turn",
    "MessageAborted": _TURN_EVENTS,
    "MessageCompleted": _TURN_EVENTS,
    "MessageStarted": _TURN_EVENTS,
    "Noticed": _TURN_EVENTS,
    "OnAsk": "ostler.clients.sdk.asks",
    "OnConnection": "ostler.clients.sdk.events",
    "Ostler": "ostler.clients.sdk.client",
    "OtherEvent": _TURN_EVENTS,
    "Retrying": _TURN_EVENTS,
    "SessionChanged": _TURN_EVENTS,
    "StartFailed": _ERRORS,
    "TaskEnded": _TURN_EVENTS,
    "TaskPrinted": _TURN_EVENTS,
    "TaskStarted": _TURN_EVENTS,
    "TextDelta": _TURN_EVENTS,
    "ThinkingDelta": _TURN_EVENTS,
    "TodosChanged": _TURN_EVENTS,
    "TurnChanged": _TURN_EVENTS,
    "TurnEnded": _TURN_EVENTS,
    "TurnEvent": _TURN_EVENTS,
    "UnexpectedAnswer": _ERRORS,
    "UsageUpdated": _TURN_EVENTS,
    "connect": "ostler.clients.sdk.client",
    "refuse": "ostler.clients.sdk.asks",
    "typed": _TURN_EVENTS,
}

__all__ = [
    "AccessRefused",
    "AskEnded",
    "AskOpened",
    "BriefSent",
    "CallCompleted",
    "CallProgress",
    "CallQueued",
    "CallStarted",
    "ClientError",
    "Compacted",
    "DaemonNotRunning",
    "DaemonUnreachable",
    "EventStream",
    "FileChanged",
    "GitChanged",
    "HookRan",
    "InputDelta",
    "LiveTurn",
    "MessageAborted",
    "MessageCompleted",
    "MessageStarted",
    "Noticed",
    "OnAsk",
    "OnConnection",
    "Ostler",
    "OtherEvent",
    "Retrying",
    "ServerChanged",
    "SessionChanged",
    "StartFailed",
    "TaskEnded",
    "TaskPrinted",
    "TaskStarted",
    "TextDelta",
    "ThinkingDelta",
    "TodosChanged",
    "TurnChanged",
    "TurnEnded",
    "TurnEvent",
    "UnexpectedAnswer",
    "UsageUpdated",
    "connect",
    "refuse",
    "typed",
]


def __getattr__(name: str) -> Any:
    """Loaded when first used: half the commands need neither pydantic nor an HTTP library."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
