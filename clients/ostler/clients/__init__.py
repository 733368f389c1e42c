"""Who drives it: the Python SDK and the `ostler` command.

async with connect() as ostler:
    session = await ostler.call(SESSION_CREATE, SessionCreate(cwd="/home/a/proj"))
    async for event in ostler.events(session.id, after=0):
        print(event.type, event.data)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostler.clients._client import Ostler, connect
    from ostler.clients._errors import (
        AccessRefused,
        ClientError,
        DaemonNotRunning,
        DaemonUnreachable,
        StartFailed,
        UnexpectedAnswer,
    )
    from ostler.clients._events import EventStream

_ERRORS = "ostler.clients._errors"
_HOMES = {
    "AccessRefused": _ERRORS,
    "ClientError": _ERRORS,
    "DaemonNotRunning": _ERRORS,
    "DaemonUnreachable": _ERRORS,
    "EventStream": "ostler.clients._events",
    "Ostler": "ostler.clients._client",
    "StartFailed": _ERRORS,
    "UnexpectedAnswer": _ERRORS,
    "connect": "ostler.clients._client",
}

__all__ = [
    "AccessRefused",
    "ClientError",
    "DaemonNotRunning",
    "DaemonUnreachable",
    "EventStream",
    "Ostler",
    "StartFailed",
    "UnexpectedAnswer",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Loaded when first used: half the commands need neither pydantic nor an HTTP library."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
