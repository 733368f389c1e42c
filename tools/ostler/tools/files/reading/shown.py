"""What was already shown of a file in the session: lines of a text, cells of a notebook, pages of a document."""

import os
from dataclasses import replace
from typing import Final

from ostler.tools.context import ToolContext
from ostler.tools.files.editing import read_state
from ostler.tools.files.editing.read_state import Range
from ostler.tools.files.reading.output import ReadOutput, UnchangedOutput
from ostler.tools.services import FileRead
from ostler.tools.tool import ToolResult

BYTES_PER_TOKEN: Final = 4  # the average of English and code, near enough for a limit


def is_too_long(text: str, context: ToolContext) -> bool:
    return len(text.encode()) // BYTES_PER_TOKEN > context.session.config.tools.read_tokens


def is_shown(place: str, status: os.stat_result, wanted: Range, context: ToolContext) -> bool:
    """Whether all that is wanted was shown before, and the file has not changed since."""
    before = context.services.files.reads.get(place)
    return before is not None and read_state.is_unchanged(before, status) and read_state.covers(before.shown, wanted)


def report_unchanged(path: str, what: str, total: int) -> ToolResult[ReadOutput]:
    words = f"{what} in the conversation already, and the file has not changed since."
    return ToolResult(UnchangedOutput(file_path=path, total_lines=total, warning=words))


def remember(
    place: str, status: os.stat_result, digest: str, total: int, shown: Range | None, context: ToolContext
) -> None:
    """Records what was shown now; what was shown before still counts where the content is the same."""
    before = context.services.files.reads.get(place)
    known = before if before is not None and before.digest == digest else None
    read = FileRead(status.st_mtime_ns, status.st_size, digest, (), total)
    if shown is not None:
        ranges = read_state.merge_range(known.ranges if known else (), shown)
        read = replace(read, ranges=ranges, shown=read_state.merge_range(known.shown if known else (), shown))
    context.services.files.reads.put(place, read)
