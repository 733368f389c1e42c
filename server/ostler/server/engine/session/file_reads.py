"""The files that a session has read, and which lines of them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Final

from ostler.tools.services import FileRead


class SessionFileReads:
    """What the session has read of files; what a call adds is stored together with the call."""

    def __init__(self, stored: Mapping[str, dict[str, Any]]) -> None:
        self._reads = {path: _parse_file_read(read) for path, read in stored.items()}
        self._listeners: list[ReadListener] = []

    def listen(self, listener: "ReadListener") -> None:
        """Call `listener` for every file that is shown to the model, as it is shown."""
        self._listeners.append(listener)

    def forget_shown(self) -> dict[str, dict[str, Any]]:
        """What was shown is not in the history any more; returns all reads as they are to be stored."""
        self._reads = {path: replace(read, shown=()) for path, read in self._reads.items()}
        return {path: _as_stored(read) for path, read in self._reads.items()}

    def forget_shown_of(self, paths: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The same for some files, as the model named them; blocks, since links decide which files they are."""
        names = {name for path in paths for name in (path, os.path.realpath(path))}
        found = {path: replace(read, shown=()) for path, read in self._reads.items() if path in names and read.shown}
        self._reads |= found
        return {path: _as_stored(read) for path, read in found.items()}

    def snapshot(self) -> dict[str, FileRead]:
        """A copy of all reads as they are now, for `restore`."""
        return dict(self._reads)

    def restore(self, known: Mapping[str, FileRead]) -> dict[str, dict[str, Any] | None]:
        """Undo all reads since a snapshot; returns the changes to be stored: None for a file that was not read then."""
        changed = {path: known.get(path) for path, read in self._reads.items() if known.get(path) is not read}
        self._reads = dict(known)
        return {path: _as_stored(read) if read is not None else None for path, read in changed.items()}

    def list_latest(self, limit: int) -> list[tuple[str, FileRead]]:
        """The files that were added last, newest first, at most `limit`."""
        return list(islice(reversed(self._reads.items()), limit))

    def create_recorder(self) -> "CallFileReads":
        return CallFileReads(self._reads, self._listeners)


class CallFileReads:
    """The reads of the session as one call sees and extends them."""

    def __init__(self, reads: dict[str, FileRead], listeners: "Sequence[ReadListener]" = ()) -> None:
        self._reads = reads
        self._listeners = listeners
        self.added: dict[str, dict[str, Any]] = {}
        self._before: dict[str, FileRead | None] = {}

    def get(self, path: str) -> FileRead | None:
        return self._reads.get(path)

    def put(self, path: str, read: FileRead) -> None:
        self._before.setdefault(path, self._reads.get(path))
        self._reads[path] = read
        self.added[path] = _as_stored(read)
        if read.shown:  # what was only written was shown to nobody
            for listener in self._listeners:
                listener(path, read)

    def undo(self) -> None:
        """Undo the reads of a call whose result the model is not shown."""
        for path, read in self._before.items():
            if read is None:
                self._reads.pop(path, None)
            else:
                self._reads[path] = read
        self.added.clear()
        self._before.clear()


ReadListener = Callable[[str, FileRead], None]
"""Called with the real path of a file that was read, and what is known of it."""


_FIELDS: Final = tuple(each.name for each in fields(FileRead))


def _as_stored(read: FileRead) -> dict[str, Any]:
    # By hand: `asdict` copies everything in it, and takes ten times as long.
    return {name: getattr(read, name) for name in _FIELDS}


def _parse_file_read(stored: dict[str, Any]) -> FileRead:
    lines = {name: tuple((first, last) for first, last in stored.get(name) or ()) for name in ("ranges", "shown")}
    return FileRead(**{**stored, **lines})
