"""Messages: the history of a session, in order."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import CallId, MessageId, SessionId, new_message_id
from ostler.protocol.shapes import Message
from ostler.storage.repositories import calls
from ostler.storage.sqlite.long_json import encode_plain
from ostler.storage.sqlite.packing import pack, unpack

_COLUMNS: Final = "id, session_id, turn_id, role, content_json, model, stop_reason, source_call_id, created_at"


PAGE_BYTES: Final = 4 * 1024 * 1024
"""Messages hold pictures: a page of 500 could be hundreds of megabytes, and encoding it would block the event loop."""

Block = dict[str, Any]
"""A content block as JSON has it."""

NOT_STORED: Final = "(What this call gave could not be stored.)"
_SHARED_KEY: Final = "$content_of"
"""The key that replaces the content of a stored tool_result: its value is the call that holds the same content."""


def _encode(connection: sqlite3.Connection, row: Sequence[Any]) -> bytes:
    """A row as the wire has it; the content is passed through as it was stored."""
    return orjson.dumps(
        {
            "id": row[0],
            "session_id": row[1],
            "turn_id": row[2],
            "role": row[3],
            "content": orjson.Fragment(_restore_content(connection, row[4])),
            "model": row[5],
            "stop_reason": row[6],
            "source_call_id": row[7],
            "created_at": row[8],
        }
    )


def _restore_content(connection: sqlite3.Connection, stored: str | bytes) -> bytes:
    """The content of a message, with what is stored only with its calls put back in."""
    content = unpack(stored)
    if _SHARED_KEY.encode() not in content:
        return content
    return encode_plain([_restore_block(connection, block) for block in orjson.loads(content)])


def _restore_block(connection: sqlite3.Connection, block: dict[str, Any]) -> dict[str, Any]:
    source = block.pop(_SHARED_KEY, None)
    if source is None:
        return block
    # In the original order: what was sent to a model once must stay the same bytes, or the prompt cache is lost.
    kind, tool_use_id = block.pop("type"), block.pop("tool_use_id")
    content = calls.load_content(connection, source)
    if content is None:
        # It was lost with a unit that failed. The rest of the history is worth more than this content.
        content = [{"type": "text", "text": NOT_STORED}]
    return {"type": kind, "tool_use_id": tool_use_id, "content": content, **block}


def _strip_shared_content(block: Block, results: Mapping[str, CallId]) -> Block:
    """A block without the content that its call already holds: what a tool printed is stored once."""
    source = results.get(block.get("tool_use_id", "")) if block["type"] == "tool_result" else None
    if source is None:
        return block
    return {**{name: value for name, value in block.items() if name != "content"}, _SHARED_KEY: source}


def add(connection: sqlite3.Connection, message: Message, results: Mapping[str, CallId] | None = None) -> int:
    """Append to the history; returns the position.

    `results` names the call of each tool_use whose result it brings, unchanged: the content stays with the call.
    """
    return add_blocks(connection, message, [block.model_dump(mode="json") for block in message.content], results or {})


def add_blocks(
    connection: sqlite3.Connection, message: Message, blocks: Sequence[Block], results: Mapping[str, CallId]
) -> int:
    """The same, with the content as JSON has it."""
    return add_encoded(connection, message, encode_plain([_strip_shared_content(block, results) for block in blocks]))


def add_encoded(connection: sqlite3.Connection, message: Message, content: bytes) -> int:
    """Append a message whose content is JSON already: what the model wrote is encoded once, however long it is."""
    return _insert(connection, message, pack(content))


def encode_with_content(message: Message, content: bytes) -> bytes:
    """Encode a message for the wire, with a content that is JSON already."""
    empty = message.model_copy(update={"content": []}).encoded()
    before, name, after = empty.partition(b'"content":')
    return b"".join((before, name, content, after.removeprefix(b"[]")))


def _insert(connection: sqlite3.Connection, message: Message, content: str | bytes) -> int:
    (position,) = connection.execute(
        "SELECT coalesce(max(position), 0) + 1 FROM messages WHERE session_id = ?", (message.session_id,)
    ).fetchone()
    connection.execute(
        f"INSERT INTO messages ({_COLUMNS}, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            message.id,
            message.session_id,
            message.turn_id,
            message.role,
            content,
            message.model,
            message.stop_reason,
            message.source_call_id,
            message.created_at,
            position,
        ),
    )
    return int(position)


def drop(connection: sqlite3.Connection, message_id: MessageId) -> None:
    """Take a message out of the history."""
    connection.execute("DELETE FROM messages WHERE id = ?", (message_id,))


def load_encoded(connection: sqlite3.Connection, message_id: str) -> bytes | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE id = ?",  # noqa: S608 - constant text
        (message_id,),
    ).fetchone()
    return _encode(connection, row) if row else None


def find_position(connection: sqlite3.Connection, session_id: SessionId, message_id: MessageId) -> int | None:
    row = connection.execute(
        "SELECT position FROM messages WHERE id = ? AND session_id = ?", (message_id, session_id)
    ).fetchone()
    return int(row[0]) if row else None


class Page(NamedTuple):
    messages: list[Message]
    last: int
    """The position of the last one: the next page comes after it."""
    more: bool


def list_page(
    connection: sqlite3.Connection, session_id: SessionId, after: int, limit: int, max_bytes: int = PAGE_BYTES
) -> Page:
    """Messages after a position, oldest first: at most `limit`, and no further one after `max_bytes` of them."""
    rows = connection.execute(
        f"SELECT position, {_COLUMNS} FROM messages"  # noqa: S608 - constant text
        " WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?",
        (session_id, after, limit + 1),
    )
    found: list[Message] = []
    size, last = 0, after
    for position, *row in rows:
        if len(found) == limit or size >= max_bytes:
            return Page(found, last, more=True)
        encoded_row = _encode(connection, row)
        found.append(Message.model_validate_json(encoded_row))
        size, last = size + len(encoded_row), position
    return Page(found, last, more=False)


def copy(connection: sqlite3.Connection, source: SessionId, target: SessionId, through: int | None) -> int:
    """Give `target` the history of `source` up to a position, under new ids; returns how many."""
    copied = 0
    for position, row in _select_rows(connection, source, through):
        connection.execute(
            f"INSERT INTO messages ({_COLUMNS}, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            # The turn and the calls stay with the session they happened in, so their content is copied.
            (
                new_message_id(),
                target,
                None,
                row[3],
                row[4] if _SHARED_KEY.encode() not in unpack(row[4]) else pack(_restore_content(connection, row[4])),
                row[5],
                row[6],
                None,
                row[8],
                position,
            ),
        )
        copied += 1
    return copied


def _select_rows(
    connection: sqlite3.Connection, session_id: SessionId, through: int | None
) -> Iterator[tuple[int, Sequence[Any]]]:
    rows = connection.execute(
        f"SELECT position, {_COLUMNS} FROM messages"  # noqa: S608 - constant text
        " WHERE session_id = ? AND (? IS NULL OR position <= ?) ORDER BY position",
        (session_id, through, through),
    )
    for row in rows:
        yield row[0], row[1:]


class ApiMessage(NamedTuple):
    """A message as the model is sent it."""

    id: MessageId
    role: str
    content: bytes
    """The JSON of its blocks."""


def load_for_model(connection: sqlite3.Connection, session_id: SessionId) -> list[ApiMessage]:
    """The whole history, in order."""
    return [
        ApiMessage(row[0], row[3], _restore_content(connection, row[4]))
        for _, row in _select_rows(connection, session_id, None)
    ]


def iterate_backwards(connection: sqlite3.Connection, session_id: SessionId) -> Iterator[Message]:
    """The messages from the last one back, each read lazily."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE session_id = ? ORDER BY position DESC",  # noqa: S608 - constant text
        (session_id,),
    )
    for row in rows:
        yield Message.model_validate_json(_encode(connection, row))


def find_last(connection: sqlite3.Connection, session_id: SessionId) -> Message | None:
    return next(iterate_backwards(connection, session_id), None)
