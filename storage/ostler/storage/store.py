"""The store: opens the database, and gives access to its writer and its readers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ostler.protocol.ids import Cursor
from ostler.storage.snapshot import Snapshot
from ostler.storage.sqlite.database import open_database
from ostler.storage.sqlite.readers import Readers
from ostler.storage.sqlite.writer import Writer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Store:
    path: Path
    database_id: str
    head: Cursor
    """The cursor of the last event when the store was opened."""
    unclean: bool
    moved_aside: Path | None
    writer: Writer
    readers: Readers

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        """Read one consistent snapshot."""
        return await self.readers.run(work)

    async def close(self) -> None:
        # Readers first: the last connection to close folds the write-ahead log in, and only the writer may.
        await self.readers.close()
        await self.writer.close()


def open_store(path: Path, *, pending_limit: int) -> Store:
    """Open the database at `path`."""
    opened = open_database(path)
    writer = Writer(opened, path, pending_limit=pending_limit)
    readers = Readers(path, writer.report_damage)
    return Store(path, opened.database_id, opened.head, opened.unclean, opened.moved_aside, writer, readers)
