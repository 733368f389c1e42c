"""Home folders for daemons: empty, or with a copy of a database that was filled once."""

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
from ostler.server.engine.journal.session_view import build_session
from ostler.storage import Scope, Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.sqlite.database import open_database
from tests.bench.histories import write_history, write_unfinished

RARE_WORD: Final = "harness"
"""A word in the title of one session in a hundred."""


class Homes:
    """Makes a new home each time: a daemon that was killed in one does not slow the start of the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._databases: dict[str, Path] = {}

    def create_empty(self) -> Path:
        home = self._folder / f"home{next(self._numbers)}"
        home.mkdir(mode=0o700)
        return home

    def create_with_sessions(self, count: int) -> Path:
        return self._copy_database(f"sessions{count}", lambda tx: _fill_sessions(tx, count, str(self._folder)))

    def create_with_events(self, count: int) -> Path:
        return self._copy_database(f"events{count}", lambda tx: _fill_events(tx, count, str(self._folder)))

    def create_with_histories(self, folder: Path, counts: Mapping[str, int]) -> Path:
        """A session for each name in `counts`, with so many messages; the name is its title and names its script."""
        name = "-".join(f"{title}{count}" for title, count in counts.items())
        return self._copy_database(name, lambda tx: _fill_histories(tx, counts, str(folder)))

    def create_with_unfinished_turns(self, count: int) -> Path:
        """`count` sessions whose turns a crash cut short."""
        return self._copy_database(f"unfinished{count}", lambda tx: _fill_unfinished(tx, count, str(self._folder)))

    def _copy_database(self, name: str, fill: Callable[[Tx], None]) -> Path:
        if name not in self._databases:
            self._databases[name] = self._folder / f"{name}.db"
            with _open_transaction(self._databases[name]) as tx:
                fill(tx)
        home = self.create_empty()
        shutil.copy(self._databases[name], home / "ostler.db")
        return home


@contextlib.contextmanager
def _open_transaction(path: Path) -> Iterator[Tx]:
    database = open_database(path)
    try:
        database.connection.execute("BEGIN IMMEDIATE")
        tx = Tx(database.connection, database.head)
        yield tx
        tx.stamp()
        tx.write_lines()
        database.connection.execute("COMMIT")
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        database.connection.close()


def _make_record(number: int, folder: str) -> SessionRecord:
    session_id = new_session_id()
    # A second apart, so that the list has an order; not in the future, and not so old that retention would delete it.
    timestamp = times.format_time(datetime.now(UTC) - timedelta(seconds=100_000 - number))
    word = RARE_WORD if number % 100 == 0 else "bridle"
    return SessionRecord(
        id=session_id,
        root_id=session_id,
        cwd=folder,
        model="rehearsal",
        provider="rehearsal",
        mode="default",
        on_ask="ask",
        created_at=timestamp,
        updated_at=timestamp,
        title=f"Mend the {word} of horse {number}",
    )


def _append_event(tx: Tx, kind: str, record: SessionRecord) -> None:
    session = build_session(record, tx.next_cursor)
    tx.append(kind, Scope(record.id, record.root_id), data=SessionData(session=session))


def _fill_sessions(tx: Tx, count: int, folder: str) -> None:
    for number in range(count):
        record = _make_record(number, folder)
        tx.sessions.put(record)
        _append_event(tx, "session.created", record)


def _fill_events(tx: Tx, count: int, folder: str) -> None:
    """A hundred sessions, each with its share of the events."""
    records = [_make_record(number, folder) for number in range(min(100, count))]
    for record in records:
        tx.sessions.put(record)
    for record in itertools.islice(itertools.cycle(records), count):
        _append_event(tx, "session.updated", record)


def _fill_histories(tx: Tx, counts: Mapping[str, int], folder: str) -> None:
    for number, (title, count) in enumerate(counts.items()):
        write_history(tx, replace(_make_record(number, folder), title=title), f"[{title}] go on", count)


def _fill_unfinished(tx: Tx, count: int, folder: str) -> None:
    for number in range(count):
        write_unfinished(tx, _make_record(number, folder))
