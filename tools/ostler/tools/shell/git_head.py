"""Reads the reflog of HEAD: where a command moved it.

Read from the files: git itself would run programs that the configuration of the repository names.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.fs.regular_file import NotRegular, open_regular_file

_MOVES_HEAD: Final = compile_later(r"\bgit\b.*\b(?:commit|cherry-pick|merge|rebase)\b", re.DOTALL)
_ENTRY: Final = compile_later(rb"[0-9a-f]{40,64} ([0-9a-f]{40,64}) [^\t\n]*> (\d{1,12}) [+-]\d{4}\t([^\n]*)")
_TAIL: Final = 64 * 1024
_SHORT: Final = 4096
_CLOCK_SLACK_NS: Final = 20_000_000
"""How far the clock of the file system may be behind."""


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One entry of the reflog."""

    sha: str
    """The commit that HEAD was moved to."""
    message: str
    """In git's words: `commit (amend): …`, `merge side: Fast-forward`, `rebase (finish): …`."""


@dataclass(frozen=True, slots=True)
class ReflogSnapshot:
    """The sizes of the reflogs when a command began, and the time."""

    sizes: Mapping[str, int]
    began_ns: int


def may_move_head(command: str) -> bool:
    """By its text: most commands need no look at the disk."""
    return _MOVES_HEAD.search(command) is not None


def snapshot_reflogs(command: str, folder: str) -> ReflogSnapshot:
    """Blocks, as does what follows."""
    return ReflogSnapshot({path: _read_size(path) for path in _find_reflogs(command, [folder])}, time.time_ns())


def read_reflog_since(command: str, folders: Iterable[str], before: ReflogSnapshot) -> list[ReflogEntry]:
    """The entries added to the reflogs of the repositories that a command worked in, oldest first."""
    return [entry for path in _find_reflogs(command, folders) for entry in _read_new_entries(path, before)]


def _find_reflogs(command: str, folders: Iterable[str]) -> list[str]:
    places = [place for folder in folders for place in (folder, *_list_named_folders(command, folder))]
    return list(dict.fromkeys(path for place in places if (path := _find_reflog(place)) is not None))


def _list_named_folders(command: str, folder: str) -> Iterator[str]:
    """The folders of `git -C FOLDER`."""
    for part in commands.parse_command(command).parts:
        for inner in commands.unwrap(part):
            match inner.words[:3]:
                case ("git", "-C", str(name)):
                    yield os.path.join(folder, name)


def _find_reflog(folder: str) -> str | None:
    place = os.path.abspath(folder)
    while True:
        found = os.path.join(place, ".git")
        if os.path.isdir(found):
            return os.path.join(found, "logs", "HEAD")
        # A worktree's: it has a HEAD of its own.
        if (link := _read_part(found, 0, _SHORT)) is not None and link.startswith(b"gitdir: "):
            return os.path.join(place, os.fsdecode(link[8:].strip()), "logs", "HEAD")
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above


def _read_new_entries(path: str, before: ReflogSnapshot) -> Iterator[ReflogEntry]:
    known = before.sizes.get(path)
    # Without a size from before, entries are selected by time: in whole seconds, by the committer's clock.
    since_ns = before.began_ns - _CLOCK_SLACK_NS if known is None else 0
    data = _read_part(path, max(known or 0, _read_size(path) - _TAIL), _TAIL, since_ns)
    for found in _ENTRY.finditer(data or b""):
        if known is not None or int(found[2]) >= before.began_ns // 1_000_000_000:
            yield ReflogEntry(found[1].decode(), found[3].decode("utf-8", "replace"))


def _read_size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _read_part(path: str, place: int, most: int, changed_since_ns: int = 0) -> bytes | None:
    """A part of a regular file that has changed since; else null. Never blocks on a FIFO or a device."""
    try:
        descriptor = open_regular_file(path, follow=False)
    except (NotRegular, OSError):
        return None
    try:
        if os.fstat(descriptor).st_mtime_ns < changed_since_ns:
            return None
        return os.pread(descriptor, most, place)
    except OSError:
        return None
    finally:
        os.close(descriptor)
