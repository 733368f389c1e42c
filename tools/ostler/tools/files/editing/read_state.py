"""Nobody writes over what they have not seen: the checks of Write and Edit, and what is remembered afterwards."""

import os
from dataclasses import replace
from typing import Final

from ostler.tools.fs.text_file import TextFile, count_lines
from ostler.tools.services import FileRead
from ostler.tools.tool import Failure

# The numbers that clients know these failures by.
MISSING: Final = 1
NOT_READ: Final = 2
CHANGED: Final = 3
SAME: Final = 4
NOT_FOUND: Final = 5
AMBIGUOUS: Final = 6
DENIED: Final = 7
RELATIVE: Final = 8
NOTEBOOK: Final = 9
TOO_LARGE: Final = 10

Range = tuple[int, int]


def merged(ranges: tuple[Range, ...], new: Range) -> tuple[Range, ...]:
    """Ranges that touch become one."""
    joined: list[Range] = []
    for first, last in sorted([*((first, last) for first, last in ranges), new]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def covers(ranges: tuple[Range, ...], wanted: Range) -> bool:
    return any(first <= wanted[0] and wanted[1] <= last for first, last in ranges)


def unchanged(read: FileRead, status: os.stat_result) -> bool:
    return read.mtime_ns == status.st_mtime_ns and read.size == status.st_size


def not_read(path: str) -> Failure:
    return Failure(f"{path} has not been read in this session. Read it first.", NOT_READ)


def still_as_read(path: str, read: FileRead, file: TextFile) -> Failure | None:
    """The time first; where only that moved, the content decides."""
    if unchanged(read, file.status) or read.digest == file.digest:
        return None
    return Failure(f"{path} has changed since it was read. Read it again.", CHANGED)


def wholly_seen(path: str, read: FileRead) -> Failure | None:
    if not read.partial:
        return None
    parts = ", ".join(f"{first}-{last}" for first, last in read.ranges[:10]) or "none"
    return Failure(
        f"Only a part of {path} has been read (lines {parts} of {read.total_lines}), "
        "and writing replaces all of it. Read the rest, or use Edit.",
        NOT_READ,
    )


def after_write(status: os.stat_result, digest: str, text: str) -> FileRead:
    """Who has written all of a file knows all of it."""
    total = count_lines(text)
    ranges = ((1, total),) if total else ()
    return FileRead(status.st_mtime_ns, status.st_size, digest, ranges, total)


def after_edit(before: FileRead | None, status: os.stat_result, digest: str, text: str, first_line: int) -> FileRead:
    """Who knew all still does; else what stands before the first change is still where it was."""
    whole = after_write(status, digest, text)
    if before is None or not before.partial:
        return whole
    kept = tuple((first, min(last, first_line - 1)) for first, last in before.ranges if first < first_line)
    return replace(whole, ranges=kept)
