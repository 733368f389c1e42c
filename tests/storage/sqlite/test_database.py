"""Opening the database: versions, migrations, and files that cannot be read."""

import sqlite3
import threading
from pathlib import Path

import pytest

from ostler.storage import NewerDatabase, StorageTrouble
from ostler.storage.sqlite.check import find_damage, mark_damaged
from ostler.storage.sqlite.database import load_migrations, open_database
from tests.support.repository import DATABASES


def test_migrations_are_numbered_without_gap() -> None:
    assert [number for number, _ in load_migrations()] == list(range(1, len(load_migrations()) + 1))


def test_a_new_database_has_the_newest_version_and_an_id_of_its_own(tmp_path: Path) -> None:
    one, two = (open_database(tmp_path / name) for name in ("one.db", "two.db"))
    for opened in (one, two):
        assert opened.connection.execute("PRAGMA user_version").fetchone() == (len(load_migrations()),)
        assert opened.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert opened.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert opened.connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        opened.connection.close()
    assert one.database_id != two.database_id
    again = open_database(tmp_path / "one.db")
    assert again.database_id == one.database_id
    again.connection.close()


@pytest.mark.parametrize("dump", sorted(DATABASES.glob("*.sql")), ids=lambda path: path.stem)
def test_a_database_of_every_earlier_version_is_brought_up_to_date(tmp_path: Path, dump: Path) -> None:
    path = tmp_path / "ostler.db"
    old = sqlite3.connect(path)
    old.executescript(dump.read_text())
    old.close()
    opened = open_database(path)
    assert opened.moved_aside is None
    assert opened.connection.execute("PRAGMA user_version").fetchone() == (len(load_migrations()),)
    assert opened.connection.execute("SELECT title FROM sessions").fetchall() == [("kept from an earlier version",)]
    assert opened.head == 7
    opened.connection.close()
    assert find_damage(path) is None


def test_there_is_a_stored_database_for_every_version() -> None:
    assert [path.stem for path in sorted(DATABASES.glob("*.sql"))] == [f"version_{n:04d}" for n, _ in load_migrations()]


def test_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(NewerDatabase, match="999"):
        open_database(path)
    assert path.read_bytes()[100:] == before[100:]


@pytest.mark.parametrize("content", [b"this is no database" * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_database_is_moved_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ostler.db"
    path.write_bytes(content)
    opened = open_database(path)
    assert opened.moved_aside is not None
    assert opened.moved_aside.read_bytes() == content
    opened.connection.close()


def test_a_database_of_somebody_else_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name)")
    other.commit()
    other.close()
    opened = open_database(path)
    assert opened.moved_aside is not None
    moved = sqlite3.connect(opened.moved_aside)
    assert moved.execute("SELECT count(*) FROM recipes").fetchone() == (0,)
    moved.close()
    opened.connection.close()


def test_damage_is_found_and_marked_for_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    opened = open_database(path)
    rows = [(f"key {n}", "value " * 100) for n in range(2000)]
    opened.connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", rows)
    opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.connection.close()
    assert find_damage(path) is None
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\x55" * 4096)
    damage = find_damage(path)
    assert damage is not None
    mark_damaged(path, damage)
    bytes_then = path.read_bytes()
    again = open_database(path)
    assert again.moved_aside is not None
    assert again.moved_aside.read_bytes() == bytes_then
    again.connection.close()
    assert not path.with_name("ostler.db.damaged").exists()


def test_a_file_that_cannot_be_looked_at_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(StorageTrouble, match="could not be checked"):
        find_damage(tmp_path / "missing.db")


def test_the_check_ends_when_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    opened = open_database(path)
    rows = [(f"key {n}", "value " * 20) for n in range(20_000)]
    opened.connection.execute("BEGIN")
    opened.connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", rows)
    opened.connection.execute("COMMIT")
    stop = threading.Event()
    stop.set()
    with pytest.raises(StorageTrouble, match="interrupted"):
        find_damage(path, stop)
    opened.connection.close()
