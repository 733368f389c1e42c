"""SSE frames: events as bytes for the wire, encoded once for all subscribers."""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from ostler.protocol import times
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.wire import Shape
from ostler.server.events.chunks import CHUNK_BYTES, split_chunks
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent
from ostler.storage.sqlite import long_json

_END: Final = b"}\n\n"


class Frame(NamedTuple):
    """One server-sent event, with what a subscriber needs to decide whether it wants it."""

    cursor: Cursor | None
    """None: it is transient, and may be dropped when a subscriber is slow."""
    kind: str
    session_id: SessionId | None
    root_id: SessionId | None
    sse: bytes
    """The whole event; of a long one, the part before its data."""
    size: int
    """In bytes; every subscriber asks for it, so it is counted once."""
    long_data: bytes = b""
    """Long data, kept apart from the rest: copying megabytes for each event would block the event loop."""

    def iter_chunks(self) -> Iterator[bytes]:
        """The bytes to send, in chunks."""
        if not self.long_data:
            return iter((self.sse,))
        return chain((self.sse,), split_chunks(self.long_data), (_END,))


def build_stored_frame(event: LoggedEvent) -> Frame:
    cursor, session_id, root_id, turn_id, time, kind, data = event
    scope = _format_scope(session_id, root_id, turn_id)
    head = f'id: {cursor}\nevent: {kind}\ndata: {{"cursor":{cursor},{scope},"time":"{time}","type":"{kind}","data":'
    return _build_frame(cursor, kind, session_id, root_id, head, data)


def _build_frame(
    cursor: Cursor | None, kind: str, session_id: SessionId | None, root_id: SessionId | None, head: str, data: bytes
) -> Frame:
    if len(data) > CHUNK_BYTES:
        return Frame(cursor, kind, session_id, root_id, head.encode(), len(data), data)
    sse = b"%b%b%b" % (head.encode(), data, _END)
    return Frame(cursor, kind, session_id, root_id, sse, len(sse))


def build_transient_frame(kind: str, scope: Scope, data: Shape | bytes, after: Cursor) -> Frame:
    """A transient event, which is not stored: it has no id, and says which stored one came before it."""
    encoded = data if isinstance(data, bytes) else long_json.encode(data)
    about = _format_scope(scope.session_id, scope.root_id, scope.turn_id)
    head = (
        f'event: {kind}\ndata: {{"cursor":null,"after":{after},{about},"time":"{times.now()}","type":"{kind}","data":'
    )
    return _build_frame(None, kind, scope.session_id, scope.root_id, head, encoded)


def _format_scope(session_id: str | None, root_id: str | None, turn_id: str | None) -> str:
    return f'"session_id":{_quote_id(session_id)},"root_id":{_quote_id(root_id)},"turn_id":{_quote_id(turn_id)}'


def _quote_id(name: str | None) -> str:
    # Ids are ours: letters, digits and underscores, with nothing in them to escape.
    return "null" if name is None else f'"{name}"'
