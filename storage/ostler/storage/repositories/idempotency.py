"""Idempotency keys: the answer of a call that created something, to be given again when the call is repeated.

The unit of work that creates claims the key first: of two that come at once the database lets one through, and the
other reads its answer.
"""

import hashlib
import sqlite3
from dataclasses import dataclass

import orjson

from ostler.protocol import times
from ostler.protocol.errors import Conflict
from ostler.protocol.ids import SessionId
from ostler.protocol.wire import Params, Shape
from ostler.storage.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Key:
    method: str
    key: str
    params_digest: str


def make_key(method: str, params: Params) -> Key | None:
    """The key that the params carry, bound to the rest of them."""
    key = getattr(params, "idempotency_key", None)
    if key is None:
        return None
    given = params.model_dump(mode="json", exclude={"idempotency_key"})
    digest = hashlib.sha256(orjson.dumps(given, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Key(method, key, digest)


class IdempotencyKeys:
    __slots__ = ("_connection", "unstamped")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.unstamped: list[tuple[Key, Shape]] = []

    def claim(self, key: Key, session_id: SessionId) -> bytes | None:
        """Take a key, before anything is created: None, or the answer that somebody else has given for it.

        Who claims it must `remember` the answer in the same unit of work.
        """
        taken = self._connection.execute(
            "INSERT INTO idempotency_keys (method, key, params_digest, answer_json, session_id, created_at)"
            " VALUES (?, ?, ?, '', ?, ?) ON CONFLICT (method, key) DO NOTHING",
            (key.method, key.key, key.params_digest, session_id, times.now()),
        )
        return None if taken.rowcount == 1 else self.find_answer(key)

    def find_answer(self, key: Key) -> bytes | None:
        """The stored answer; a conflict where the key was used with other params."""
        row = self._connection.execute(
            "SELECT params_digest, answer_json FROM idempotency_keys WHERE method = ? AND key = ?",
            (key.method, key.key),
        ).fetchone()
        if row is None:
            return None
        if row[0] != key.params_digest:
            raise Conflict(
                f"The idempotency key {key.key!r} was used for {key.method} with other params. Use a new key.",
                idempotency_key=key.key,
            )
        return str(row[1]).encode()

    def remember(self, key: Key, answer: Shape) -> None:
        self._store_answer(key, answer)  # a repetition in the same batch reads it before the stamp
        self.unstamped.append((key, answer))

    def stamp(self, stamp: Stamp) -> None:
        for key, answer in self.unstamped:
            self._store_answer(key, stamp.apply(answer))

    def _store_answer(self, key: Key, answer: Shape) -> None:
        self._connection.execute(
            "UPDATE idempotency_keys SET answer_json = ? WHERE method = ? AND key = ?",
            (answer.encoded().decode(), key.method, key.key),
        )

    def forget(self, before: str) -> int:
        return self._connection.execute("DELETE FROM idempotency_keys WHERE created_at < ?", (before,)).rowcount
