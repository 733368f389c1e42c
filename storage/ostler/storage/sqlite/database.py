"""Opening the database: pragmas, migrations, and moving a file aside that cannot be read."""

import os
import re
import secrets
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ostler.protocol.ids import Cursor
from ostler.storage.errors import DamagedDatabase, NewerDatabase, StorageTrouble, describe, is_damage
from ostler.storage.snapshot import Snapshot

WAL_BYTES: Final = 4 * 1024 * 1024
"""When the write-ahead log grows past this, it is folded into the database."""

_NEW_FILE_PRAGMAS: Final = (
    # What a call printed takes one to four kilobytes packed: of 4 KB pages a third would stay empty.
    "PRAGMA page_size = 8192",
    # Pages freed by a deleted session go back to the file system.
    "PRAGMA auto_vacuum = INCREMENTAL",
)
"""Only for a new file: they write to it, whatever it holds."""

_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    # An acknowledged write survives a power cut, not just a crash of ours.
    "PRAGMA synchronous = FULL",
    # The writer checkpoints after it has answered, so that nobody's commit waits for it.
    "PRAGMA wal_autocheckpoint = 0",
    f"PRAGMA journal_size_limit = {WAL_BYTES}",
    # What was deleted is overwritten wherever that costs no further page.
    "PRAGMA secure_delete = FAST",
    "PRAGMA cache_size = -4096",
    "PRAGMA temp_store = MEMORY",
)


@dataclass(frozen=True, slots=True)
class OpenedDatabase:
    """A database that is ready to be written."""

    connection: sqlite3.Connection
    database_id: str
    head: Cursor
    unclean: bool
    """The last daemon did not stop cleanly: its write-ahead log was still there."""
    moved_aside: Path | None
    """Where a file went that could not be read."""


def open_database(path: Path) -> OpenedDatabase:
    """Open, migrate and describe the database at `path`; a damaged one is moved aside, never deleted."""
    moved = _move_aside(path) if find_damage_marker(path).exists() else None
    unclean = _add_suffix(path, "-wal").exists()
    try:
        connection = _connect(path)
    except DamagedDatabase:
        moved = _move_aside(path)
        connection = _connect(path)
    head = Snapshot(connection).events.load_head()
    return OpenedDatabase(connection, _read_database_id(connection), head, unclean, moved)


def find_damage_marker(path: Path) -> Path:
    """A file that says: the check failed, move the database aside at the next start."""
    return _add_suffix(path, ".damaged")


def _add_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _connect(path: Path) -> sqlite3.Connection:
    # Opened by hand first: SQLite would create the file with the permissions of the umask.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        version = _read_version(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        try:
            _prepare(connection, version)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if is_damage(error):
            raise DamagedDatabase(f"{path}: {error}") from error
        raise StorageTrouble(f"{path} cannot be opened: {describe(error)}.") from error
    return connection


def _read_version(path: Path) -> int:
    """The schema version, read without changing the file: a newer or foreign file is found before we write to it."""
    # Closing a connection that may write would fold the write-ahead log in; one that may not would create one.
    mode = "ro" if _add_suffix(path, "-wal").exists() else "rw"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()
    if version == 0 and tables:
        raise DamagedDatabase(f"{path} holds tables, but not ours")
    newest = load_migrations()[-1][0]
    if version > newest:
        raise NewerDatabase(
            f"{path} has version {version}, and this ostler knows versions up to {newest}. "
            "Install the newer ostler again, or start with another home folder."
        )
    return int(version)


def _prepare(connection: sqlite3.Connection, version: int) -> None:
    for pragma in (*(() if version else _NEW_FILE_PRAGMAS), *_PRAGMAS):
        connection.execute(pragma).fetchall()
    _migrate(connection, version)
    if not connection.execute("SELECT 1 FROM meta WHERE key = 'database_id'").fetchone():
        connection.execute("INSERT INTO meta (key, value) VALUES ('database_id', ?)", (secrets.token_hex(16),))


def load_migrations() -> list[tuple[int, str]]:
    """The numbered SQL files, in order."""
    found: list[tuple[int, str]] = []
    for file in (Path(__file__).parent / "migrations").iterdir():
        number = re.match(r"(\d{4})_\w+\.sql$", file.name)
        if number:
            found.append((int(number[1]), file.read_text("utf-8")))
    return sorted(found)


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    steps = [f"{sql}\nPRAGMA user_version = {number};" for number, sql in load_migrations() if number > version]
    # One transaction a step: a crash between two steps leaves a whole version. A new file, in which there is nothing to
    # lose, waits for the disk only once.
    for step in ["\n".join(steps)] if version == 0 else steps:
        connection.executescript(f"BEGIN IMMEDIATE;\n{step}\nCOMMIT;")


def _read_database_id(connection: sqlite3.Connection) -> str:
    return str(connection.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()[0])


def _move_aside(path: Path) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    aside = _add_suffix(path, f".damaged-{stamp}")
    # A crash in between would leave the log beside an empty database, and SQLite deletes such a log.
    find_damage_marker(path).touch()
    for suffix in ("", "-wal", "-shm"):
        source = _add_suffix(path, suffix) if suffix else path
        if source.exists():
            source.rename(_add_suffix(aside, suffix) if suffix else aside)
    find_damage_marker(path).unlink(missing_ok=True)
    return aside
