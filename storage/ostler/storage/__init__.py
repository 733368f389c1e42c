"""Durable storage: the SQLite database, its one writer, its readers, and one repository per noun."""

from ostler.storage.commit_progress import CommitProgress
from ostler.storage.errors import DamagedDatabase, NewerDatabase, StorageTrouble
from ostler.storage.snapshot import Snapshot
from ostler.storage.store import Store, open_store
from ostler.storage.transaction import Scope, Tx

__all__ = [
    "CommitProgress",
    "DamagedDatabase",
    "NewerDatabase",
    "Scope",
    "Snapshot",
    "StorageTrouble",
    "Store",
    "Tx",
    "open_store",
]
