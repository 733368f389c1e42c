"""Checks of the integrity of the database file."""

import shutil
import sqlite3
from pathlib import Path

from tests.faults.rows import Findings


def check_database(path: Path, findings: Findings) -> None:
    """SQLite itself finds nothing wrong with the file."""
    connection = sqlite3.connect(path)
    try:
        verdicts = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    finally:
        connection.close()
    findings.expect(verdicts == ["ok"], f"integrity_check says {verdicts[:3]}")


def check_copy(home: Path, folder: Path, findings: Findings) -> None:
    """The same for a daemon that was just killed, on a copy: opening the file itself would recover its WAL."""
    if not (home / "ostler.db").exists():
        return
    folder.mkdir(exist_ok=True)
    for name in ("ostler.db", "ostler.db-wal"):
        (folder / name).unlink(missing_ok=True)
        if (home / name).exists():
            shutil.copy(home / name, folder / name)
    check_database(folder / "ostler.db", findings)
    shutil.rmtree(folder)
