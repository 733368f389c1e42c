"""Which files a session has read, and what of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Final

from ostler.tools.services import FileRead


class StoredReads:
    """What the session has seen of files; each call takes what it added along when it is stored."""

    def __init__(self, stored: Mapping[str, dict[str, Any]]) -> None:
        self._reads = {path: _file_read(read) for path, read in stored.items()}
        self._listeners: list[Hear] = []

    def listen(self, hear: "Hear") -> None:
        """Be told of every file that is shown to the model, as it is shown."""
        self._listeners.append(hear)

    def forget_shown(self) -> dict[str, dict[str, Any]]:
        """What was shown is not in the conversation any more; all of it as it is to be stored."""
        self._reads = {path: replace(read, shown=()) for path, read in self._reads.items()}
        return {path: _as_stored(read) for path, read in self._reads.items()}

    def known(self) -> dict[str, FileRead]:
        """All of it as it is now, to come back to."""
        return dict(self._reads)

    def back_to(self, known: Mapping[str, FileRead]) -> dict[str, dict[str, Any] | None]:
        """Forget what was read since; what is different then, as it is to be stored: null where nothing is known."""
        changed = {path: known.get(path) for path, read in self._reads.items() if known.get(path) is not read}
        self._reads = dict(known)
        return {path: _as_stored(read) if read is not None else None for path, read in changed.items()}

    def latest(self, limit: int) -> list[tuple[str, FileRead]]:
        """The files that were read last for the first time, at most so many."""
        return list(islice(reversed(self._reads.items()), limit))

    def recorder(self) -> "CallReads":
        return CallReads(self._reads, self._listeners)


class CallReads:
    """The reads of the session as one call sees and extends them."""

    def __init__(self, reads: dict[str, FileRead], listeners: "Sequence[Hear]" = ()) -> None:
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
            for hear in self._listeners:
                hear(path, read)

    def take_back(self) -> None:
        """The call has come to nothing: the model is not shown what it has read."""
        for path, read in self._before.items():
            if read is None:
                self._reads.pop(path, None)
            else:
                self._reads[path] = read
        self.added.clear()
        self._before.clear()


Hear = Callable[[str, FileRead], None]
"""Called with the real path of a file that was read, and what is known of it."""


_FIELDS: Final = tuple(each.name for each in fields(FileRead))


def _as_stored(read: FileRead) -> dict[str, Any]:
    # By hand: `asdict` copies everything in it, and takes ten times as long.
    return {name: getattr(read, name) for name in _FIELDS}


def _file_read(stored: dict[str, Any]) -> FileRead:
    lines = {name: tuple((first, last) for first, last in stored.get(name) or ()) for name in ("ranges", "shown")}
    return FileRead(**{**stored, **lines})
