"""Homes for daemons: empty, or with a database that was filled once and is copied."""

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ostler.protocol import times
from ostler.protocol.events import SessionData
from ostler.protocol.ids import new_session_id
from ostler.server.engine.journal.session_view import session_shape
from ostler.storage import Scope, Tx
from ostler.storage.repositories import sessions
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.sqlite.database import open_database
from tests.bench.histories import write_history, write_unfinished

RARE: Final = "harness"
"""A word in the title of one session in a hundred."""


class Homes:
    """Gives out a new home each time; a daemon that was killed in one does not slow the start of the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._filled: dict[str, Path] = {}

    def empty(self) -> Path:
        home = self._folder / f"home{next(self._numbers)}"
        home.mkdir(mode=0o700)
        return home

    def with_sessions(self, count: int) -> Path:
        return self._copy(f"sessions{count}", lambda tx: _fill_sessions(tx, count, str(self._folder)))

    def with_events(self, count: int) -> Path:
        return self._copy(f"events{count}", lambda tx: _fill_events(tx, count, str(self._folder)))

    def with_histories(self, folder: Path, counts: Mapping[str, int]) -> Path:
        """A session for each name, which is its title and the script of its conversation, with so many messages."""
        name = "-".join(f"{title}{count}" for title, count in counts.items())
        return self._copy(name, lambda tx: _fill_histories(tx, counts, str(folder)))

    def with_unfinished(self, count: int) -> Path:
        """So many sessions whose turns a crash cut short."""
        return self._copy(f"unfinished{count}", lambda tx: _fill_unfinished(tx, count, str(self._folder)))

    def _copy(self, name: str, fill: Callable[[Tx], None]) -> Path:
        if name not in self._filled:
            self._filled[name] = self._folder / f"{name}.db"
            with _one_transaction(self._filled[name]) as tx:
                fill(tx)
        home = self.empty()
        shutil.copy(self._filled[name], home / "ostler.db")
        return home


@contextlib.contextmanager
def _one_transaction(path: Path) -> Iterator[Tx]:
    opened = open_database(path)
    try:
        opened.connection.execute("BEGIN IMMEDIATE")
        tx = Tx(opened.connection, opened.head)
        yield tx
        tx.write_lines()
        opened.connection.execute("COMMIT")
        opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        opened.connection.close()


def _record(number: int, folder: str) -> SessionRecord:
    session_id = new_session_id()
    # A second apart and not in the future, so that the list has an order and nothing is past its time.
    moment = times.at(datetime.now(UTC) - timedelta(seconds=100_000 - number))
    word = RARE if number % 100 == 0 else "bridle"
    return SessionRecord(
        id=session_id,
        root_id=session_id,
        cwd=folder,
        model="rehearsal",
        provider="rehearsal",
        mode="default",
        on_ask="ask",
        created_at=moment,
        updated_at=moment,
        title=f"Mend the {word} of horse {number}",
    )


def _tell(tx: Tx, kind: str, record: SessionRecord) -> None:
    session = session_shape(record, tx.next_cursor)
    tx.append(kind, Scope(record.id, record.root_id), data=SessionData(session=session))


def _fill_sessions(tx: Tx, count: int, folder: str) -> None:
    for number in range(count):
        record = _record(number, folder)
        sessions.put(tx.connection, record)
        _tell(tx, "session.created", record)


def _fill_events(tx: Tx, count: int, folder: str) -> None:
    """A hundred sessions, each with its share of the events."""
    records = [_record(number, folder) for number in range(min(100, count))]
    for record in records:
        sessions.put(tx.connection, record)
    for record in itertools.islice(itertools.cycle(records), count):
        _tell(tx, "session.updated", record)


def _fill_histories(tx: Tx, counts: Mapping[str, int], folder: str) -> None:
    for number, (title, count) in enumerate(counts.items()):
        write_history(tx, replace(_record(number, folder), title=title), f"[{title}] go on", count)


def _fill_unfinished(tx: Tx, count: int, folder: str) -> None:
    for number in range(count):
        write_unfinished(tx, _record(number, folder))
