"""What the conversation has seen of a file: lines of a text, cells of a notebook, pages of a document."""

import os
from dataclasses import replace
from typing import Final

from ostler.tools.context import ToolContext
from ostler.tools.files.editing import read_state
from ostler.tools.files.editing.read_state import Range
from ostler.tools.files.reading.output import ReadOutput, UnchangedOutput
from ostler.tools.services import FileRead
from ostler.tools.tool import Ran

BYTES_PER_TOKEN: Final = 4  # what English and code come to, near enough for a bound


def too_long(text: str, context: ToolContext) -> bool:
    return len(text.encode()) // BYTES_PER_TOKEN > context.surroundings.read_tokens


def is_shown(place: str, status: os.stat_result, wanted: Range, context: ToolContext) -> bool:
    """Whether the file is what it was when all that is wanted was shown."""
    before = context.reads.get(place)
    return before is not None and read_state.unchanged(before, status) and read_state.covers(before.shown, wanted)


def unchanged(path: str, what: str, total: int) -> Ran[ReadOutput]:
    words = f"{what} in the conversation already, and the file has not changed since."
    return Ran(UnchangedOutput(file_path=path, total_lines=total, warning=words))


def remember(
    place: str, status: os.stat_result, digest: str, total: int, shown: Range | None, context: ToolContext
) -> None:
    """What was seen before counts as long as the content is the same."""
    before = context.reads.get(place)
    known = before if before is not None and before.digest == digest else None
    read = FileRead(status.st_mtime_ns, status.st_size, digest, (), total)
    if shown is not None:
        ranges = read_state.merged(known.ranges if known else (), shown)
        read = replace(read, ranges=ranges, shown=read_state.merged(known.shown if known else (), shown))
    context.reads.put(place, read)
