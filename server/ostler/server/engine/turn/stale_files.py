"""Stale files: those that have changed on the disk since the model read them. It is told once for each change.

They are checked only after calls that may have changed something. Write and Edit record the files that they write, so
that what is found here was changed by a command, or by somebody else.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Final

import anyio

from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.environment import to_printable
from ostler.tools.files.editing.read_state import is_unchanged
from ostler.tools.fs.regular_file import NotRegular, read_regular_file
from ostler.tools.services import FileRead
from ostler.tools.threads import read_in_thread

_MAX_FILES: Final = 1000
_MAX_NAMED: Final = 20
_SECONDS: Final = 1.0
"""A disk that does not answer is not waited for."""
_COMPARED_BYTES: Final = 1024 * 1024
"""A file of the same size is compared by its content, where that is quick."""

Change = list[int] | None
"""Time and size of a file as it was found; null where it is gone."""


async def describe_stale_files(session: LiveSession) -> str | None:
    """The hint for the model about files that have changed since it read them, or was told; null where none has."""
    reads = session.reads.list_latest(_MAX_FILES)
    if not reads:
        return None
    told: dict[str, Change] = session.state.get("told_stale") or {}
    found: dict[str, Change] | None = None
    with anyio.move_on_after(_SECONDS):
        found = await read_in_thread(_find_changed, reads, told)
    if found is None:
        return None
    new = sorted(name for name, change in found.items() if name not in told or told[name] != change)
    if found != told:
        # A file that was read again since is dropped, so that its next change is reported.
        session.remember(told_stale=found)
    hooks = SessionHooks(session, None)
    for name in new[:_MAX_NAMED]:
        await hooks.fire_file_changed(name)
    return _format_hint(new, found) if new else None


def _find_changed(reads: Sequence[tuple[str, FileRead]], told: dict[str, Change]) -> dict[str, Change]:
    """The changed files, by name as it is shown. Blocks: one stat a file, and a read where only the time differs."""
    found: dict[str, Change] = {}
    for path, read in reads:
        name = to_printable(path)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            found[name] = None
            continue
        except OSError:
            continue
        change = [status.st_mtime_ns, status.st_size]
        if not is_unchanged(read, status) and (told.get(name) == change or not _has_same_content(path, read, status)):
            found[name] = change
    return found


def _has_same_content(path: str, read: FileRead, status: os.stat_result) -> bool:
    if status.st_size != read.size or status.st_size > _COMPARED_BYTES:
        return False
    try:
        return hashlib.sha256(read_regular_file(path, _COMPARED_BYTES + 1)).hexdigest() == read.digest
    except (NotRegular, OSError):
        return False


def _format_hint(new: Sequence[str], found: dict[str, Change]) -> str:
    lines = [f"- {name}" + (" (it is gone)" if found[name] is None else "") for name in new[:_MAX_NAMED]]
    if len(new) > _MAX_NAMED:
        lines.append(f"- and {len(new) - _MAX_NAMED} more")
    return "\n".join(["Changed on the disk since you read it; read it again before you rely on it or edit it:", *lines])
