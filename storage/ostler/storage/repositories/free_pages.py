"""Free pages: room in the file that deleted rows left, and that goes back to the file system."""

import sqlite3
from typing import Final

RETURNED_AT_ONCE: Final = 1000


class FreePages:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def give_back(self) -> bool:
        """Return a bounded number of pages to the file system; true where more can be given back."""
        before = self.count()
        for _ in range(min(before, RETURNED_AT_ONCE)):
            # One at a time and closed at once: sqlite3 takes a single step, which is a single page, whatever is asked.
            self._connection.execute("PRAGMA incremental_vacuum(1)").close()
        return 0 < self.count() < before

    def count(self) -> int:
        (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages)
