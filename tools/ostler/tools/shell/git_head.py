"""Where a command moved a repository's HEAD, as the repository's own journal has it.

Read from the files: git itself would run what the configuration of the repository names.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ostler.tools import commands

_MOVES: Final = re.compile(r"\bgit\b.*\b(?:commit|cherry-pick|merge|rebase)\b", re.DOTALL)
_ENTRY: Final = re.compile(rb"[0-9a-f]{40,64} ([0-9a-f]{40,64}) [^\t\n]*> (\d{1,12}) [+-]\d{4}\t([^\n]*)")
_TAIL: Final = 64 * 1024
_SHORT: Final = 4096
_CLOCK_NS: Final = 20_000_000
"""The clock of the file system may be so much behind."""


@dataclass(frozen=True, slots=True)
class Move:
    """One entry of the journal."""

    sha: str
    """The commit that HEAD is at since."""
    what: str
    """In git's words: `commit (amend): …`, `merge side: Fast-forward`, `rebase (finish): …`."""


@dataclass(frozen=True, slots=True)
class Journals:
    """How long the journals were when a command began, and when that was."""

    sizes: Mapping[str, int]
    began_ns: int


def may_move(command: str) -> bool:
    """By its words: most commands need no look at the disk."""
    return _MOVES.search(command) is not None


def journals_before(command: str, folder: str) -> Journals:
    """Blocks, as does what follows."""
    return Journals({path: _size(path) for path in _journals(command, [folder])}, time.time_ns())


def moves_since(command: str, folders: Iterable[str], before: Journals) -> list[Move]:
    """What was added to the journals of the repositories that a command worked in, oldest first."""
    return [move for path in _journals(command, folders) for move in _added(path, before)]


def _journals(command: str, folders: Iterable[str]) -> list[str]:
    places = [place for folder in folders for place in (folder, *_named(command, folder))]
    return list(dict.fromkeys(path for place in places if (path := _journal(place)) is not None))


def _named(command: str, folder: str) -> Iterator[str]:
    """The folders of `git -C FOLDER`."""
    for part in commands.read_command(command).parts:
        for inner in commands.unwrapped(part):
            match inner.words[:3]:
                case ("git", "-C", str(name)):
                    yield os.path.join(folder, name)


def _journal(folder: str) -> str | None:
    place = os.path.abspath(folder)
    while True:
        found = os.path.join(place, ".git")
        if os.path.isdir(found):
            return os.path.join(found, "logs", "HEAD")
        # A worktree's: it has a HEAD of its own.
        if (link := _read(found, 0, _SHORT)) is not None and link.startswith(b"gitdir: "):
            return os.path.join(place, os.fsdecode(link[8:].strip()), "logs", "HEAD")
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above


def _added(path: str, before: Journals) -> Iterator[Move]:
    known = before.sizes.get(path)
    # Of a repository that nobody looked at before, time has to tell: in whole seconds, by the clock of who committed.
    since_ns = before.began_ns - _CLOCK_NS if known is None else 0
    data = _read(path, max(known or 0, _size(path) - _TAIL), _TAIL, since_ns)
    for found in _ENTRY.finditer(data or b""):
        if known is not None or int(found[2]) >= before.began_ns // 1_000_000_000:
            yield Move(found[1].decode(), found[3].decode("utf-8", "replace"))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _read(path: str, place: int, most: int, changed_since_ns: int = 0) -> bytes | None:
    """A part of a file that has changed since; null where it is none. Not waiting, whatever stands there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime_ns < changed_since_ns:
            return None
        return os.pread(descriptor, most, place)
    except OSError:
        return None
    finally:
        os.close(descriptor)
