"""Compression of JSON columns: long JSON is stored packed with zlib.

What a tool printed stands in its call twice (as data for clients, as blocks for the model) and once more in the message
that carries it to the model. Packed, the three take less than the text itself. Short JSON stays as it is: people look
into the database, and packing it would gain nothing. The type of the column's value tells which it is.
"""

import sqlite3
import zlib
from collections.abc import Sequence
from typing import Final

import orjson

_SHORT_BYTES: Final = 1024
_LEVEL: Final = 6
_LONG_BYTES: Final = 256 * 1024
_FAST_LEVEL: Final = 1
"""For long values, which delay the next write: packed almost as well, in a bit more than half of the time."""


def pack(encoded: bytes) -> str | bytes:
    if len(encoded) < _SHORT_BYTES:
        return encoded.decode()
    return zlib.compress(encoded, _LEVEL if len(encoded) < _LONG_BYTES else _FAST_LEVEL)


def unpack(stored: str | bytes) -> bytes:
    return stored.encode() if isinstance(stored, str) else zlib.decompress(stored)


def load_packed(connection: sqlite3.Connection, query: str, ids: Sequence[str]) -> dict[str, bytes]:
    """The JSON of some rows by id, with one query: it selects id and column, and ends with `WHERE id IN`."""
    rows = connection.execute(f"{query} (SELECT value FROM json_each(?))", (orjson.dumps(ids).decode(),))  # noqa: S608 - constant text
    return {row[0]: unpack(row[1]) for row in rows}
