"""Drafts: the stored part of the one message of a session that is being streamed."""

import sqlite3
from collections.abc import Sequence

import orjson

from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Message
from ostler.storage.sqlite.packing import pack, unpack

Block = tuple[int, bytes]
"""A complete block as JSON, and its place in the message."""


class Drafts:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, message: Message) -> None:
        """Begin a draft; its blocks come later."""
        self.drop(message.session_id)
        self._connection.execute(
            "INSERT INTO drafts (session_id, message_json) VALUES (?, ?)",
            (message.session_id, message.encoded().decode()),
        )

    def extend(self, session_id: SessionId, blocks: Sequence[Block]) -> None:
        """Store blocks that have become complete: each is written once, however many calls depend on it."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO draft_blocks (session_id, place, block_json) VALUES (?, ?, ?)",
            [(session_id, place, pack(block)) for place, block in blocks],
        )

    def find(self, session_id: SessionId) -> Message | None:
        row = self._connection.execute("SELECT message_json FROM drafts WHERE session_id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        rows = self._connection.execute(
            "SELECT block_json FROM draft_blocks WHERE session_id = ? ORDER BY place", (session_id,)
        )
        content = [orjson.loads(unpack(block)) for (block,) in rows]
        return Message.model_validate({**orjson.loads(row[0]), "content": content})

    def drop(self, session_id: SessionId) -> None:
        self._connection.execute("DELETE FROM drafts WHERE session_id = ?", (session_id,))
        self._connection.execute("DELETE FROM draft_blocks WHERE session_id = ?", (session_id,))
