"""Rows that no repository would read or write like that: the tests look at the tables themselves."""

import sqlite3
from typing import Any

from ostler.storage import Snapshot


def reach_connection(snapshot: Snapshot) -> sqlite3.Connection:
    """The connection below the repositories of a snapshot, or of a unit of work."""
    return snapshot.events._connection


def select_value(snapshot: Snapshot, query: str, *values: Any) -> Any:
    """The one value that a query gives."""
    return reach_connection(snapshot).execute(query, values).fetchone()[0]
