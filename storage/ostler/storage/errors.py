"""Errors of the storage, and what an SQLite error means: damage, disk trouble, or just a failed statement.

StorageTrouble
├── NewerDatabase     written by a later version: do not touch
├── DamagedDatabase   cannot be read as a database: move aside
└── (protocol's StorageFailed and ReadOnly go to clients)
"""

import sqlite3
from typing import Final


class StorageTrouble(Exception):
    """The database cannot be opened, or not be checked."""


class NewerDatabase(StorageTrouble):
    """A later version of ostler has written this file."""


class DamagedDatabase(StorageTrouble):
    """The file is no database of ours, or one that cannot be read."""


# Primary result codes (the low byte of the extended ones).
_DISK: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def _primary_code(error: sqlite3.Error) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def is_damage(error: sqlite3.Error) -> bool:
    return _primary_code(error) in _DAMAGE


def is_disk_trouble(error: BaseException) -> bool:
    """Whether the whole database is affected, not just the statement that failed."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) in _DISK | _DAMAGE


def describe(error: BaseException) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)
