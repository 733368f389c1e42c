"""`session/diff`: what a session and its agents did to files, from before the first change to now."""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ostler.protocol.diff import FileAction, FileDiff, SessionDiff
from ostler.protocol.ids import SessionId
from ostler.protocol.session import SessionRef
from ostler.server.events.event_log import EventLog
from ostler.storage.repositories import file_history, sessions
from ostler.storage.repositories.file_history import KeptFile
from ostler.tools.files.editing.diff import hunks, unified
from ostler.tools.files.editing.git_diff import count
from ostler.tools.fs.encoding import UTF_8, decode_bytes
from ostler.tools.fs.text_file import Unreadable, detect, digest_of, open_regular
from ostler.tools.threads import read_in_thread

MAX_FILES: Final = 1000
MAX_PATCHES_CHARS: Final = 4_000_000
"""Of all patches together: the answer stays one that a client takes at once."""
_MAX_READ_BYTES: Final = 10 * 1024 * 1024
_SAMPLE: Final = 8192
_NOT_KEPT: Final = {
    "too_large": "What it held before is not kept: it was too large.",
    "no_room": "What it held before is not kept any more: it made room for later changes.",
}
_LATER: Final = "What it held before its first changes is not kept any more; this begins later."


@dataclass(frozen=True, slots=True)
class _Start:
    """What is known of a file before the session, or as soon after as was kept."""

    first: KeptFile
    kept: KeptFile
    """The first whose content is there; the same where it is, or where there is none."""


@dataclass(frozen=True, slots=True)
class _Now:
    """A file as it is, as far as it can be read."""

    exists: bool
    data: bytes | None = None
    trouble: str | None = None
    """Why it cannot be read."""


@dataclass(slots=True)
class _Answer:
    files: list[FileDiff] = field(default_factory=list)
    chars: int = 0
    left_out: int = 0

    def add(self, found: FileDiff) -> None:
        if len(self.files) >= MAX_FILES:
            self.left_out += 1
            return
        if self.chars + len(found.patch or "") > MAX_PATCHES_CHARS:
            note = "Left out: the patches of the other files are long enough for one answer."
            found = found.model_copy(update={"patch": None, "note": note})
        self.chars += len(found.patch or "")
        self.files.append(found)


async def session_diff(log: EventLog, params: SessionRef) -> SessionDiff:
    def look(connection: sqlite3.Connection) -> list[KeptFile]:
        sessions.get(connection, params.session_id)
        family = [member.id for member in sessions.family(connection, params.session_id)]
        return file_history.of_sessions(connection, family)

    answer = _Answer()
    for start in _starts(await log.read(look)):
        found = await _file_diff(log, start)
        if found is not None:
            answer.add(found)
    return SessionDiff(session_id=SessionId(params.session_id), files=answer.files, left_out=answer.left_out)


def _starts(rows: Iterable[KeptFile]) -> list[_Start]:
    """Each file once, by its path."""
    found: dict[str, _Start] = {}
    for row in rows:
        start = found.setdefault(row.path, _Start(row, row))
        if start.kept.left_out is not None and row.left_out is None:
            found[row.path] = _Start(start.first, row)
    return [found[path] for path in sorted(found)]


async def _file_diff(log: EventLog, start: _Start) -> FileDiff | None:
    """A file at a time: not all of what was kept has to be in memory at once."""
    digest = start.kept.digest
    packed = None
    if digest is not None:
        packed = await log.read(lambda connection: file_history.content(connection, digest))
    return await read_in_thread(_compared, start, packed)


def _compared(start: _Start, packed: bytes | None) -> FileDiff | None:
    """Null where the file is what it was."""
    kept, now = start.kept, _look(start.kept.path)
    existed = start.first.mode is not None
    if not existed and not now.exists:
        return None
    action: FileAction = "created" if not existed else "changed" if now.exists else "deleted"
    if kept.digest is not None and now.data is not None and digest_of(now.data) == kept.digest and kept is start.first:
        return None
    if now.trouble is not None:
        return _without_patch(kept.path, action, now.trouble)
    if kept.mode is not None and packed is None:
        return _without_patch(kept.path, action, _NOT_KEPT[kept.left_out or "no_room"])
    before = file_history.unpack(packed) if packed is not None else b""
    found = _patched(kept.path, action, before, now.data or b"")
    return found if kept is start.first else found.model_copy(update={"note": found.note or _LATER})


def _patched(path: str, action: FileAction, before: bytes, after: bytes) -> FileDiff:
    old, new = _text(before), _text(after)
    if old is None or new is None:
        return _without_patch(path, action, None, binary=True)
    found = hunks(old, new)
    if found is None:
        return _without_patch(path, action, "The patch is too long to show.")
    patch = unified(path, found)
    return FileDiff(path=path, action=action, patch=patch, additions=count(found, "+"), deletions=count(found, "-"))


def _without_patch(path: str, action: FileAction, note: str | None, *, binary: bool = False) -> FileDiff:
    note = note or "It is no text."
    return FileDiff(path=path, action=action, patch=None, additions=None, deletions=None, binary=binary, note=note)


def _look(path: str) -> _Now:
    if os.path.realpath(path) != path:
        # What was kept is of a real path: whatever is behind the link was not changed by the session.
        return _Now(exists=True, trouble="It is a link now, or in a folder that is one.")
    try:
        descriptor = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return _Now(exists=False)
    except (Unreadable, OSError) as error:
        return _Now(exists=True, trouble=f"It cannot be read now: {error}")
    with open(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > _MAX_READ_BYTES:
            return _Now(exists=True, trouble="It is too large to be compared.")
        return _Now(exists=True, data=file.read(_MAX_READ_BYTES))


def _text(data: bytes) -> str | None:
    """Null for what is no text."""
    try:
        encoding = detect("", data[:_SAMPLE], len(data))
        if encoding.codec != UTF_8.codec:
            return encoding.decode(data)
    except (Unreadable, UnicodeDecodeError):
        return None
    return None if b"\0" in data else decode_bytes(data, encoding.bom)[0]
