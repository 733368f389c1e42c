"""Events as bytes for the wire, made once for all readers."""

from dataclasses import dataclass

from pydantic_core import to_json

from ostler.protocol import times
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.storage import Scope
from ostler.storage.events import LoggedEvent


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event, with what a reader needs to know whether it wants it."""

    cursor: Cursor | None
    """None: it is not stored, and may be dropped when a reader is slow."""
    kind: str
    session_id: SessionId | None
    root_id: SessionId | None
    sse: bytes


def stored_frame(event: LoggedEvent) -> Frame:
    envelope = b"".join(
        (
            b'{"cursor":%d,"session_id":' % event.cursor,
            to_json(event.session_id),
            b',"root_id":',
            to_json(event.root_id),
            b',"turn_id":',
            to_json(event.turn_id),
            b',"time":"',
            event.time.encode(),
            b'","type":"',
            event.type.encode(),
            b'","data":',
            event.data,
            b"}",
        )
    )
    sse = b"id: %d\nevent: %b\ndata: %b\n\n" % (event.cursor, event.type.encode(), envelope)
    return Frame(event.cursor, event.type, event.session_id, event.root_id, sse)


def passing_frame(kind: str, scope: Scope, data: Shape, after: Cursor) -> Frame:
    """An event that is not stored: it has no id, and says which stored one came before it."""
    envelope = b"".join(
        (
            b'{"cursor":null,"after":%d,"session_id":' % after,
            to_json(scope.session_id),
            b',"root_id":',
            to_json(scope.root_id),
            b',"turn_id":',
            to_json(scope.turn_id),
            b',"time":"',
            times.now().encode(),
            b'","type":"',
            kind.encode(),
            b'","data":',
            data.encoded(),
            b"}",
        )
    )
    sse = b"event: %b\ndata: %b\n\n" % (kind.encode(), envelope)
    return Frame(None, kind, scope.session_id, scope.root_id, sse)
