"""Events as bytes for the wire, made once for all readers."""

from typing import NamedTuple

from ostler.protocol import times
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.storage import Scope
from ostler.storage.events import LoggedEvent


class Frame(NamedTuple):
    """One server-sent event, with what a reader needs to know whether it wants it."""

    cursor: Cursor | None
    """None: it is not stored, and may be dropped when a reader is slow."""
    kind: str
    session_id: SessionId | None
    root_id: SessionId | None
    sse: bytes


def stored_frame(event: LoggedEvent) -> Frame:
    cursor, session_id, root_id, turn_id, time, kind, data = event
    scope = _scope(session_id, root_id, turn_id)
    head = f'id: {cursor}\nevent: {kind}\ndata: {{"cursor":{cursor},{scope},"time":"{time}","type":"{kind}","data":'
    return Frame(cursor, kind, session_id, root_id, b"%b%b}\n\n" % (head.encode(), data))


def passing_frame(kind: str, scope: Scope, data: Shape, after: Cursor) -> Frame:
    """An event that is not stored: it has no id, and says which stored one came before it."""
    about = _scope(scope.session_id, scope.root_id, scope.turn_id)
    head = (
        f'event: {kind}\ndata: {{"cursor":null,"after":{after},{about},"time":"{times.now()}","type":"{kind}","data":'
    )
    return Frame(None, kind, scope.session_id, scope.root_id, b"%b%b}\n\n" % (head.encode(), data.encoded()))


def _scope(session_id: str | None, root_id: str | None, turn_id: str | None) -> str:
    return f'"session_id":{_quoted(session_id)},"root_id":{_quoted(root_id)},"turn_id":{_quoted(turn_id)}'


def _quoted(name: str | None) -> str:
    # Ids are ours: letters, digits and underscores, with nothing in them to escape.
    return "null" if name is None else f'"{name}"'
