"""Read-before-write: the checks that a file was read and is unchanged, and what is known of it after a write."""

import os
from dataclasses import replace
from typing import Final

from ostler.tools.fs.text_file import TextFile, count_lines
from ostler.tools.services import FileRead
from ostler.tools.tool import Failure

# The error codes by which clients recognise these failures.
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


def merge_range(ranges: tuple[Range, ...], new: Range) -> tuple[Range, ...]:
    """Adds a range; ranges that touch become one."""
    joined: list[Range] = []
    for first, last in sorted([*((first, last) for first, last in ranges), new]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def covers(ranges: tuple[Range, ...], wanted: Range) -> bool:
    return any(first <= wanted[0] and wanted[1] <= last for first, last in ranges)


def is_unchanged(read: FileRead, status: os.stat_result) -> bool:
    return read.mtime_ns == status.st_mtime_ns and read.size == status.st_size


def fail_not_read(path: str) -> Failure:
    return Failure(f"{path} has not been read in this session. Read it first.", NOT_READ)


def check_unchanged(path: str, read: FileRead, file: TextFile) -> Failure | None:
    """By modification time and size; where these differ, the digest of the content decides."""
    if is_unchanged(read, file.status) or read.digest == file.digest:
        return None
    return Failure(f"{path} has changed since it was read. Read it again.", CHANGED)


def check_fully_read(path: str, read: FileRead) -> Failure | None:
    if not read.partial:
        return None
    parts = ", ".join(f"{first}-{last}" for first, last in read.ranges[:10]) or "none"
    return Failure(
        f"Only a part of {path} has been read (lines {parts} of {read.total_lines}), "
        "and writing replaces all of it. Read the rest, or use Edit.",
        NOT_READ,
    )


def build_after_write(status: os.stat_result, digest: str, text: str) -> FileRead:
    """What the session knows after it wrote the whole file: all of it."""
    total = count_lines(text)
    ranges = ((1, total),) if total else ()
    return FileRead(status.st_mtime_ns, status.st_size, digest, ranges, total)


def build_after_edit(
    before: FileRead | None, status: os.stat_result, digest: str, text: str, first_line: int
) -> FileRead:
    """What the session knows after an edit: all, if it did before; else the ranges before the first changed line."""
    whole = build_after_write(status, digest, text)
    if before is None or not before.partial:
        return whole
    kept = tuple((first, min(last, first_line - 1)) for first, last in before.ranges if first < first_line)
    return replace(whole, ranges=kept)
