"""Events as bytes for the wire, made once for all readers."""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from ostler.protocol import times
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.server.events.chunks import CHUNK_BYTES, chunks
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite import long_json

_END: Final = b"}\n\n"


class Frame(NamedTuple):
    """One server-sent event, with what a reader needs to know whether it wants it."""

    cursor: Cursor | None
    """None: it is not stored, and may be dropped when a reader is slow."""
    kind: str
    session_id: SessionId | None
    root_id: SessionId | None
    sse: bytes
    """All of it; of a long one what stands before its data."""
    size: int
    """In bytes; asked by every reader, so it is counted once."""
    long_data: bytes = b""
    """Not put together with the rest: to copy megabytes for each event holds everybody up."""

    def chunks(self) -> Iterator[bytes]:
        """What is sent."""
        if not self.long_data:
            return iter((self.sse,))
        return chain((self.sse,), chunks(self.long_data), (_END,))


def stored_frame(event: LoggedEvent) -> Frame:
    cursor, session_id, root_id, turn_id, time, kind, data = event
    scope = _scope(session_id, root_id, turn_id)
    head = f'id: {cursor}\nevent: {kind}\ndata: {{"cursor":{cursor},{scope},"time":"{time}","type":"{kind}","data":'
    return _frame(cursor, kind, session_id, root_id, head, data)


def _frame(
    cursor: Cursor | None, kind: str, session_id: SessionId | None, root_id: SessionId | None, head: str, data: bytes
) -> Frame:
    if len(data) > CHUNK_BYTES:
        return Frame(cursor, kind, session_id, root_id, head.encode(), len(data), data)
    sse = b"%b%b%b" % (head.encode(), data, _END)
    return Frame(cursor, kind, session_id, root_id, sse, len(sse))


def passing_frame(kind: str, scope: Scope, data: Shape | bytes, after: Cursor) -> Frame:
    """An event that is not stored: it has no id, and says which stored one came before it."""
    encoded = data if isinstance(data, bytes) else long_json.encoded(data)
    about = _scope(scope.session_id, scope.root_id, scope.turn_id)
    head = (
        f'event: {kind}\ndata: {{"cursor":null,"after":{after},{about},"time":"{times.now()}","type":"{kind}","data":'
    )
    return _frame(None, kind, scope.session_id, scope.root_id, head, encoded)


def _scope(session_id: str | None, root_id: str | None, turn_id: str | None) -> str:
    return f'"session_id":{_quoted(session_id)},"root_id":{_quoted(root_id)},"turn_id":{_quoted(turn_id)}'


def _quoted(name: str | None) -> str:
    # Ids are ours: letters, digits and underscores, with nothing in them to escape.
    return "null" if name is None else f'"{name}"'
