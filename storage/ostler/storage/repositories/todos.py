"""Work lists: one row a session, with all items in their order, because a list is short and changes as a whole."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

from ostler.protocol.ids import SessionId
from ostler.protocol.todo import Todo
from ostler.storage.sqlite.packing import pack, unpack

_ITEMS: TypeAdapter[tuple[Todo, ...]] = TypeAdapter(tuple[Todo, ...], config=ConfigDict(defer_build=True))


class StoredTodos(NamedTuple):
    next_number: int = 1
    """The id of the next item: a number is given once, so that an old one never names something else."""
    todos: tuple[Todo, ...] = ()


class TodoLists:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, session_id: SessionId) -> StoredTodos:
        """An empty list where the session has none."""
        row = self._connection.execute(
            "SELECT next_number, todos_json FROM todo_lists WHERE session_id = ?", (session_id,)
        ).fetchone()
        return StoredTodos(row[0], _ITEMS.validate_json(unpack(row[1]))) if row else StoredTodos()

    def copy(self, session_id: SessionId, to: SessionId) -> None:
        """A fork has a list of its own, which begins as its source's is: its history speaks of the items."""
        self._connection.execute(
            "INSERT INTO todo_lists (session_id, next_number, todos_json) "
            "SELECT ?, next_number, todos_json FROM todo_lists WHERE session_id = ?",
            (to, session_id),
        )

    def put(self, session_id: SessionId, next_number: int, todos: Sequence[Todo]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO todo_lists (session_id, next_number, todos_json) VALUES (?, ?, ?)",
            (session_id, next_number, pack(_ITEMS.dump_json(tuple(todos)))),
        )
