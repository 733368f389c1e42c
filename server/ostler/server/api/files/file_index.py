"""The files below a session's folders, for finding one by a few letters of its path."""

import os
import re
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, NamedTuple

from ostler.tools.fs.paths import make_printable
from ostler.tools.search import ripgrep

_FRESH_SECONDS: Final = 15.0
"""So long a list is used again; what was made meanwhile is found after that."""
_MOST_FILES: Final = 300_000
_MOST_CANDIDATES: Final = 1000
"""So many paths that fit in one way are compared; a query that more of them fit says too little yet."""
_MOST_INDEXES: Final = 8
_LONGEST_QUERY: Final = 200

FileKind = Literal["file", "folder"]


class Found(NamedTuple):
    path: str
    """Relative to the session's folder where it is below that, else absolute."""
    kind: FileKind
    score: int


@dataclass(slots=True)
class FileIndex:
    """All paths below some folders, as a person would write them; what git ignores is left out."""

    paths: list[str]
    """Folders end in a slash."""
    lowered: list[str] = field(init=False)
    names: list[str] = field(init=False)
    """The last parts of the paths, in lower case."""
    joined: str = field(init=False)

    def __post_init__(self) -> None:
        self.lowered = [path.lower() for path in self.paths]
        self.names = [path.rstrip("/").rpartition("/")[2] for path in self.lowered]
        self.joined = "\n".join(self.lowered)

    def find(self, query: str, nameable: Callable[[str], bool], limit: int) -> list[Found]:
        """The paths that fit best. Letters may be left out, but only where little else fits."""
        wanted = query.lower().removeprefix("./")[:_LONGEST_QUERY]
        ranked = sorted(self._rank(wanted, limit * 4), key=lambda one: (-one[0], len(self.paths[one[1]]), one[1]))
        shown = ((score, self.paths[at]) for score, at in ranked)
        allowed = (_build_found(score, path) for score, path in shown if nameable(path))
        return list(islice(allowed, limit))

    def _rank(self, wanted: str, enough: int) -> list[tuple[int, int]]:
        """Each further way of fitting is tried only where those before gave too little."""
        if not wanted:  # the top of the tree
            top = [at for at, path in enumerate(self.paths) if "/" not in path.rstrip("/")]
            return [(100, at) for at in top]
        found: dict[int, int] = {}
        for score, places in (
            (900, (at for at, name in enumerate(self.names) if name.startswith(wanted))),
            (800, (at for at, name in enumerate(self.names) if wanted in name)),
            (600, (at for at, path in enumerate(self.lowered) if wanted in path)),
        ):
            for at in islice(places, _MOST_CANDIDATES):
                found.setdefault(at, 1000 if self.names[at] == wanted.rstrip("/") else score)
            if len(found) >= enough:
                return [(score, at) for at, score in found.items()]
        scattered = islice(self._find_scattered(wanted, found), _MOST_CANDIDATES)
        return [*((score, at) for at, score in found.items()), *scattered]

    def _find_scattered(self, wanted: str, known: Container[int]) -> Iterable[tuple[int, int]]:
        """Paths that have the letters in their order, with others between."""
        pattern = re.compile("[^\n]*?".join(map(re.escape, wanted)))
        begin, line = 0, 0
        while (found := pattern.search(self.joined, begin)) is not None:
            line += self.joined.count("\n", begin, found.start())
            if line not in known:
                gaps = found.end() - found.start() - len(wanted)
                yield (max(1, 200 - gaps), line)
            end = self.joined.find("\n", found.end())
            if end < 0:
                return
            begin, line = end + 1, line + 1


def _build_found(score: int, path: str) -> Found:
    return Found(path, "folder" if path.endswith("/") else "file", score)


class FileIndexes:
    """One index for each set of folders, made when somebody looks for a file and used again for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._indexes: dict[tuple[str, ...], tuple[float, FileIndex]] = {}

    async def load(self, folder: str, roots: Sequence[str]) -> FileIndex:
        key = (folder, *roots)
        known = self._indexes.get(key)
        if known is not None and self._clock() - known[0] < _FRESH_SECONDS:
            return known[1]
        paths = [path for root in roots for path in await _list_paths(folder, root)]
        index = FileIndex(paths)
        self._indexes.pop(key, None)
        self._indexes[key] = (self._clock(), index)
        for old in list(self._indexes)[:-_MOST_INDEXES]:
            del self._indexes[old]
        return index


async def _list_paths(folder: str, root: str) -> list[str]:
    options = ["--files", *ripgrep.build_exclusions(root, "", ""), "--", root]
    return await ripgrep.search(options, lambda search: _collect(search, folder, root))


def _collect(search: ripgrep.Search, folder: str, root: str) -> list[str]:
    base = f"{folder.rstrip('/')}/"
    files = [os.fsdecode(record) for record in islice(search.read_records(b"\0"), _MOST_FILES)]
    shown = [make_printable(path.removeprefix(base)) for path in files]
    folders: dict[str, None] = {}
    for path in shown:
        head = path.rpartition("/")[0]
        while head and f"{head}/" not in folders:
            folders[f"{head}/"] = None
            head = head.rpartition("/")[0]
    return [*sorted(folders), *sorted(shown)]
