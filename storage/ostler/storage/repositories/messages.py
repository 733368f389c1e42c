"""Messages: the history of a session, in order."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from ostler.protocol.ids import CallId, MessageId, SessionId, new_message_id
from ostler.protocol.shapes import Message
from ostler.storage.repositories.calls import Calls
from ostler.storage.sqlite.long_json import encode_plain
from ostler.storage.sqlite.packing import pack, unpack

_COLUMNS: Final = (
    "id, session_id, turn_id, role, content_json, model, stop_reason, source_call_id, created_at, kept_from"
)

PAGE_BYTES: Final = 4 * 1024 * 1024
"""Messages hold pictures: a page of 500 could be hundreds of megabytes, and encoding it would block the event loop."""

Block = dict[str, Any]
"""A content block as JSON has it."""

NOT_STORED: Final = "(What this call gave could not be stored.)"

_SHARED_KEY: Final = "$content_of"
"""The key that replaces the content of a stored tool_result: its value is the call that holds the same content."""


def _strip_shared_content(block: Block, results: Mapping[str, CallId]) -> Block:
    """A block without the content that its call already holds: what a tool printed is stored once."""
    source = results.get(block.get("tool_use_id", "")) if block["type"] == "tool_result" else None
    if source is None:
        return block
    return {**{name: value for name, value in block.items() if name != "content"}, _SHARED_KEY: source}


def encode_with_content(message: Message, content: bytes) -> bytes:
    """Encode a message for the wire, with a content that is JSON already."""
    empty = message.model_copy(update={"content": []}).encoded()
    before, name, after = empty.partition(b'"content":')
    return b"".join((before, name, content, after.removeprefix(b"[]")))


class Page(NamedTuple):
    messages: list[Message]
    last: int
    """The position of the last one: the next page comes after it."""
    more: bool


class ApiMessage(NamedTuple):
    """A message as the model is sent it."""

    id: MessageId
    role: str
    content: bytes
    """The JSON of its blocks."""
    position: int = 0


def _find_cleared(cleared: Mapping[str, tuple[int, str]], position: int, tool_use_id: str) -> str | None:
    """The text in the place of a result; models use an id again: what came after it was cleared is another."""
    found = cleared.get(tool_use_id)
    return found[1] if found is not None and position <= found[0] else None


def replace_results(content: bytes, find: Callable[[str], str | None]) -> bytes:
    """The content of a message, with a text in the place of each result that was cleared."""
    if b'"tool_result"' not in content:
        return content
    blocks = orjson.loads(content)
    replaced = [_replace_result(block, find) for block in blocks]
    return content if replaced == blocks else encode_plain(replaced)


def _replace_result(block: Block, find: Callable[[str], str | None]) -> Block:
    text = find(block["tool_use_id"]) if block["type"] == "tool_result" else None
    return block if text is None else {**block, "content": [{"type": "text", "text": text}]}


class Messages:
    __slots__ = ("_calls", "_connection")

    def __init__(self, connection: sqlite3.Connection, calls: Calls) -> None:
        self._connection = connection
        self._calls = calls

    def _encode(self, row: Sequence[Any]) -> bytes:
        """A row as the wire has it; the content is passed through as it was stored."""
        return self._encode_all([row])[0]

    def _encode_all(self, rows: Sequence[Sequence[Any]]) -> list[bytes]:
        contents = self._restore_contents([row[4] for row in rows])
        return [self._encode_with(row, content) for row, content in zip(rows, contents, strict=True)]

    def _encode_with(self, row: Sequence[Any], content: bytes) -> bytes:
        return orjson.dumps(
            {
                "id": row[0],
                "session_id": row[1],
                "turn_id": row[2],
                "role": row[3],
                "content": orjson.Fragment(content),
                "model": row[5],
                "stop_reason": row[6],
                "source_call_id": row[7],
                "summary": row[9] is not None,
                "created_at": row[8],
            }
        )

    def _restore_content(self, stored: str | bytes) -> bytes:
        return self._restore_contents([stored])[0]

    def _restore_contents(self, stored: Sequence[str | bytes]) -> list[bytes]:
        """The contents of messages, with what is stored only with their calls put back in: read all at once."""
        contents = [unpack(each) for each in stored]
        shared = {
            place: orjson.loads(content) for place, content in enumerate(contents) if _SHARED_KEY.encode() in content
        }
        if not shared:
            return contents
        sources = [block[_SHARED_KEY] for blocks in shared.values() for block in blocks if _SHARED_KEY in block]
        results = self._calls.load_contents(sources)
        for place, blocks in shared.items():
            contents[place] = encode_plain([self._restore_block(block, results) for block in blocks])
        return contents

    def _restore_block(self, block: dict[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
        source = block.pop(_SHARED_KEY, None)
        if source is None:
            return block
        # In the original order: what was sent to a model once must stay the same bytes, or the prompt cache is lost.
        kind, tool_use_id = block.pop("type"), block.pop("tool_use_id")
        content = results.get(source)
        if content is None:
            # It was lost with a unit that failed. The rest of the history is worth more than this content.
            content = [{"type": "text", "text": NOT_STORED}]
        return {"type": kind, "tool_use_id": tool_use_id, "content": content, **block}

    def add(self, message: Message, results: Mapping[str, CallId] | None = None) -> int:
        """Append to the history; returns the position.

        `results` names the call of each tool_use whose result it brings, unchanged: the content stays with the call.
        """
        return self.add_blocks(message, [block.model_dump(mode="json") for block in message.content], results or {})

    def add_blocks(self, message: Message, blocks: Sequence[Block], results: Mapping[str, CallId]) -> int:
        """The same, with the content as JSON has it."""
        return self.add_encoded(message, encode_plain([_strip_shared_content(block, results) for block in blocks]))

    def add_encoded(self, message: Message, content: bytes) -> int:
        """Append a message whose content is JSON already: what the model wrote is encoded once, however long it is."""
        return self._insert(message, pack(content))

    def add_summary(self, message: Message, kept_from: int) -> int:
        """Append a message that the model is sent in the place of all those before a position."""
        blocks = [block.model_dump(mode="json") for block in message.content]
        return self._insert(message, pack(encode_plain(blocks)), kept_from)

    def clear_results(self, session_id: SessionId, texts: Mapping[str, str]) -> None:
        """Let the model be sent these texts in the place of results, by tool_use id, from now on."""
        position = self._load_last_position(session_id)
        self._connection.executemany(
            "INSERT OR REPLACE INTO cleared_results (session_id, tool_use_id, position, text) VALUES (?, ?, ?, ?)",
            [(session_id, tool_use_id, position, text) for tool_use_id, text in texts.items()],
        )

    def _load_last_position(self, session_id: SessionId) -> int:
        (position,) = self._connection.execute(
            "SELECT coalesce(max(position), 0) FROM messages WHERE session_id = ?", (session_id,)
        ).fetchone()
        return int(position)

    def _insert(self, message: Message, content: str | bytes, kept_from: int | None = None) -> int:
        position = self._load_last_position(message.session_id) + 1
        self._connection.execute(
            f"INSERT INTO messages ({_COLUMNS}, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
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
                kept_from,
                position,
            ),
        )
        return position

    def drop(self, message_id: MessageId) -> None:
        """Take a message out of the history."""
        self._connection.execute("DELETE FROM messages WHERE id = ?", (message_id,))

    def load_encoded(self, message_id: str) -> bytes | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM messages WHERE id = ?",  # noqa: S608 - constant text
            (message_id,),
        ).fetchone()
        return self._encode(row) if row else None

    def load_many(self, message_ids: Sequence[str]) -> dict[str, bytes]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM messages WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608 - constant
            (orjson.dumps(message_ids).decode(),),
        ).fetchall()
        return dict(zip((row[0] for row in rows), self._encode_all(rows), strict=True))

    def find_position(self, session_id: SessionId, message_id: MessageId) -> int | None:
        row = self._connection.execute(
            "SELECT position FROM messages WHERE id = ? AND session_id = ?", (message_id, session_id)
        ).fetchone()
        return int(row[0]) if row else None

    def list_page(self, session_id: SessionId, after: int, limit: int, max_bytes: int = PAGE_BYTES) -> Page:
        """Messages after a position, oldest first: at most `limit`, and no further one after `max_bytes` of them."""
        rows = self._connection.execute(
            f"SELECT position, {_COLUMNS} FROM messages"  # noqa: S608 - constant text
            " WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?",
            (session_id, after, limit + 1),
        )
        found: list[Message] = []
        size, last = 0, after
        for position, *row in rows:
            if len(found) == limit or size >= max_bytes:
                return Page(found, last, more=True)
            encoded_row = self._encode(row)
            found.append(Message.model_validate_json(encoded_row))
            size, last = size + len(encoded_row), position
        return Page(found, last, more=False)

    def copy(self, source: SessionId, target: SessionId, through: int | None) -> int:
        """Give `target` the history of `source` up to a position, under new ids; returns how many."""
        copied = 0
        for position, row in self._select_rows(source, through):
            self._connection.execute(
                f"INSERT INTO messages ({_COLUMNS}, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                # The turn and the calls stay with the session they happened in, so their content is copied.
                (
                    new_message_id(),
                    target,
                    None,
                    row[3],
                    row[4] if _SHARED_KEY.encode() not in unpack(row[4]) else pack(self._restore_content(row[4])),
                    row[5],
                    row[6],
                    None,
                    row[8],
                    row[9],
                    position,
                ),
            )
            copied += 1
        self._connection.execute(
            "INSERT INTO cleared_results (session_id, tool_use_id, position, text)"
            " SELECT ?, tool_use_id, position, text FROM cleared_results"
            " WHERE session_id = ? AND (? IS NULL OR position <= ?)",
            (target, source, through, through),
        )
        return copied

    def _select_rows(self, session_id: SessionId, through: int | None) -> Iterator[tuple[int, Sequence[Any]]]:
        rows = self._connection.execute(
            f"SELECT position, {_COLUMNS} FROM messages"  # noqa: S608 - constant text
            " WHERE session_id = ? AND (? IS NULL OR position <= ?) ORDER BY position",
            (session_id, through, through),
        )
        for row in rows:
            yield row[0], row[1:]

    def load_for_model(self, session_id: SessionId) -> list[ApiMessage]:
        """The history as the model is sent it, in order: what was summarised or cleared is not in it."""
        cleared = self._load_cleared(session_id)

        def restore(position: int, stored: str | bytes) -> bytes:
            content = self._restore_content(stored)
            return replace_results(content, partial(_find_cleared, cleared, position)) if cleared else content

        return [
            ApiMessage(row[0], row[3], restore(position, row[4]), position)
            for position, row in self._select_sent_rows(session_id)
        ]

    def list_sent_places(self, session_id: SessionId) -> list[tuple[int, str]]:
        """Position and role of each message that the model is sent, in that order."""
        return [(position, row[0]) for position, row in self._select_sent_rows(session_id, "role, kept_from")]

    def _select_sent_rows(self, session_id: SessionId, columns: str = _COLUMNS) -> Iterator[tuple[int, Sequence[Any]]]:
        """The last summary, and the messages that it keeps; all of them where there is none."""
        summary = self._connection.execute(
            f"SELECT position, {columns} FROM messages WHERE session_id = ? AND kept_from IS NOT NULL"  # noqa: S608
            " ORDER BY position DESC LIMIT 1",
            (session_id,),
        ).fetchone()
        if summary is not None:
            yield summary[0], summary[1:]
        rows = self._connection.execute(
            f"SELECT position, {columns} FROM messages"  # noqa: S608 - constant text
            " WHERE session_id = ? AND position >= ? AND kept_from IS NULL ORDER BY position",
            (session_id, summary[-1] if summary is not None else 0),
        )
        for row in rows:
            yield row[0], row[1:]

    def _load_cleared(self, session_id: SessionId) -> dict[str, tuple[int, str]]:
        rows = self._connection.execute(
            "SELECT tool_use_id, position, text FROM cleared_results WHERE session_id = ?", (session_id,)
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    def iterate_backwards(self, session_id: SessionId) -> Iterator[Message]:
        """The messages from the last one back, each read lazily."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM messages WHERE session_id = ? ORDER BY position DESC",  # noqa: S608 - constant text
            (session_id,),
        )
        for row in rows:
            yield Message.model_validate_json(self._encode(row))

    def find_last(self, session_id: SessionId) -> Message | None:
        return next(self.iterate_backwards(session_id), None)
