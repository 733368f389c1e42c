"""`session/diff`: what a session and its agents did to files, from before the first change to now."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ostler.protocol.diff import FileAction, FileDiff, SessionDiff
from ostler.protocol.ids import SessionId
from ostler.protocol.session import SessionRef
from ostler.server.events.event_log import EventLog
from ostler.storage import Snapshot
from ostler.storage.repositories import file_history
from ostler.storage.repositories.file_history import FileSnapshot
from ostler.tools.files.editing.diff import compute_hunks, format_unified
from ostler.tools.files.editing.git_diff import count_changed
from ostler.tools.fs.encoding import UTF_8, decode_bytes
from ostler.tools.fs.text_file import Unreadable, detect_from_head, hash_bytes, open_regular
from ostler.tools.threads import read_in_thread

MAX_FILES: Final = 1000
MAX_PATCHES_CHARS: Final = 4_000_000
"""Of all patches together, so that the answer fits into one response."""
_MAX_READ_BYTES: Final = 10 * 1024 * 1024
_SAMPLE: Final = 8192
_NOT_KEPT: Final = {
    "too_large": "What it held before is not kept: it was too large.",
    "no_room": "What it held before is not kept any more: it made room for later changes.",
}
_BEGINS_LATER: Final = "What it held before its first changes is not kept any more; this begins later."


@dataclass(frozen=True, slots=True)
class _Baseline:
    """A file as it was before the session changed it, or the earliest later state that was kept."""

    first: FileSnapshot
    kept: FileSnapshot
    """The first record that has content: `first` itself where it has, or where none has."""


@dataclass(frozen=True, slots=True)
class _CurrentFile:
    """A file as it is now, as far as it can be read."""

    exists: bool
    data: bytes | None = None
    trouble: str | None = None
    """Why it cannot be read."""


@dataclass(slots=True)
class _DiffCollector:
    """Collects the diffs of files up to the limits; counts those that are left out."""

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


async def diff_session(log: EventLog, params: SessionRef) -> SessionDiff:
    def read_rows(snapshot: Snapshot) -> list[FileSnapshot]:
        snapshot.sessions.get(params.session_id)
        family = [member.id for member in snapshot.sessions.list_family(params.session_id)]
        return snapshot.file_history.list_by_sessions(family)

    answer = _DiffCollector()
    for start in _find_baselines(await log.read(read_rows)):
        found = await _diff_file(log, start)
        if found is not None:
            answer.add(found)
    return SessionDiff(session_id=SessionId(params.session_id), files=answer.files, left_out=answer.left_out)


def _find_baselines(rows: Iterable[FileSnapshot]) -> list[_Baseline]:
    """The baseline of each file, sorted by path."""
    found: dict[str, _Baseline] = {}
    for row in rows:
        start = found.setdefault(row.path, _Baseline(row, row))
        if start.kept.left_out is not None and row.left_out is None:
            found[row.path] = _Baseline(start.first, row)
    return [found[path] for path in sorted(found)]


async def _diff_file(log: EventLog, start: _Baseline) -> FileDiff | None:
    """One file at a time, so that the kept contents are never in memory all together."""
    digest = start.kept.digest
    packed = None
    if digest is not None:
        packed = await log.read(lambda snapshot: snapshot.file_history.load_content(digest))
    return await read_in_thread(_compare_file, start, packed)


def _compare_file(start: _Baseline, packed: bytes | None) -> FileDiff | None:
    """None where the file is unchanged."""
    kept, now = start.kept, _read_current(start.kept.path)
    existed = start.first.mode is not None
    if not existed and not now.exists:
        return None
    action: FileAction = "created" if not existed else "changed" if now.exists else "deleted"
    if kept.digest is not None and now.data is not None and hash_bytes(now.data) == kept.digest and kept is start.first:
        return None
    if now.trouble is not None:
        return _build_without_patch(kept.path, action, now.trouble)
    if kept.mode is not None and packed is None:
        return _build_without_patch(kept.path, action, _NOT_KEPT[kept.left_out or "no_room"])
    before = file_history.unpack(packed) if packed is not None else b""
    found = _diff_contents(kept.path, action, before, now.data or b"")
    return found if kept is start.first else found.model_copy(update={"note": found.note or _BEGINS_LATER})


def _diff_contents(path: str, action: FileAction, before: bytes, after: bytes) -> FileDiff:
    old, new = _decode_text(before), _decode_text(after)
    if old is None or new is None:
        return _build_without_patch(path, action, None, binary=True)
    found = compute_hunks(old, new)
    if found is None:
        return _build_without_patch(path, action, "The patch is too long to show.")
    patch = format_unified(path, found)
    return FileDiff(
        path=path, action=action, patch=patch, additions=count_changed(found, "+"), deletions=count_changed(found, "-")
    )


def _build_without_patch(path: str, action: FileAction, note: str | None, *, binary: bool = False) -> FileDiff:
    note = note or "It is no text."
    return FileDiff(path=path, action=action, patch=None, additions=None, deletions=None, binary=binary, note=note)


def _read_current(path: str) -> _CurrentFile:
    if os.path.realpath(path) != path:
        # What was kept belongs to a real path: the session did not change the target of this link.
        return _CurrentFile(exists=True, trouble="It is a link now, or in a folder that is one.")
    try:
        descriptor = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return _CurrentFile(exists=False)
    except (Unreadable, OSError) as error:
        return _CurrentFile(exists=True, trouble=f"It cannot be read now: {error}")
    with open(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > _MAX_READ_BYTES:
            return _CurrentFile(exists=True, trouble="It is too large to be compared.")
        return _CurrentFile(exists=True, data=file.read(_MAX_READ_BYTES))


def _decode_text(data: bytes) -> str | None:
    """None for what is not text."""
    try:
        encoding = detect_from_head("", data[:_SAMPLE], len(data))
        if encoding.codec != UTF_8.codec:
            return encoding.decode(data)
    except (Unreadable, UnicodeDecodeError):
        return None
    return None if b"\0" in data else decode_bytes(data, encoding.bom)[0]
