"""Read: text by line, images, notebooks by cell, PDF documents by page, and persisted results."""

import os
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.editing import read_state
from ostler.tools.files.reading.access import check_access
from ostler.tools.files.reading.line_reader import Window, read_cached_window, read_window
from ostler.tools.files.reading.media import read_document, read_image, read_notebook
from ostler.tools.files.reading.output import OUTPUT_KINDS, ReadOutput, TextOutput, render_output
from ostler.tools.files.reading.shown import BYTES_PER_TOKEN, is_shown, is_too_long, remember, report_unchanged
from ostler.tools.files.reading.stored_result import read_result
from ostler.tools.formats import pdf
from ostler.tools.fs import cached_io, paths
from ostler.tools.fs.file_type import HEAD_BYTES, FileKind, detect_kind
from ostler.tools.fs.similar_paths import build_path_filter, describe_missing
from ostler.tools.fs.text_file import Unreadable, is_stream, open_regular
from ostler.tools.permissions.subject import Subject, TextSubject
from ostler.tools.search.stored_text import parse_result_path
from ostler.tools.text import MAX_LINE, cut_requested_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Allow,
    Block,
    Check,
    Failure,
    Tool,
    ToolInput,
    ToolResult,
)
from ostler.tools.traits import PermissionTraits

DEFAULT_LINES: Final = 2_000


class ReadInput(ToolInput):
    """Which file, and which part of it."""

    file_path: str = Field(description="Absolute path of the file, or result://ID.")
    offset: int | None = Field(None, description="The first line to show, counted from 1; in a notebook the cell.")
    limit: int | None = Field(None, description=f"How many lines to show; {DEFAULT_LINES} if not given.")
    pages: str | None = Field(None, description="Of a PDF document: '3', '1-5' or '10-', at most 20 pages.")


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """A file that was opened, and its lines where it has some."""

    place: str
    """Its real path."""
    kind: FileKind
    status: os.stat_result
    window: Window | None = None


async def _find_result_subject(given: ReadInput, session: SessionView) -> Subject | None:
    """A persisted result is no file."""
    return TextSubject(given.file_path) if parse_result_path(given.file_path) is not None else None


class Read(Tool[ReadInput, ReadOutput]):
    """Shows a file as a model can read it."""

    name = "Read"
    Input = ReadInput
    Output = ReadOutput
    output_kinds = OUTPUT_KINDS
    title = "Reads a file, or a part of it"
    given_to_agents = "all"
    search_hint = "show open view cat file lines image notebook PDF content"
    strict = True
    in_minimal = True
    max_result_chars = None
    only_reads = True
    permissions = PermissionTraits(path="file_path", subject=_find_result_subject)

    def __init__(self) -> None:
        self._approved = paths.ApprovedPaths()

    def description(self, session: SessionView) -> str:
        return super().description(session).replace("{tokens}", f"{session.config.tools.read_tokens:,}", 1)

    def activity(self, given: ReadInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: ReadInput) -> bool:
        return True

    def summary(self, given: ReadInput) -> str:
        path = paths.shorten_path(given.file_path)
        if given.pages is not None:
            return f"Read {path} (pages {given.pages[:50]})"
        if given.offset is None and given.limit is None:
            return f"Read {path}"
        first = given.offset or 1
        return f"Read {path} (lines {first}-{first + (given.limit or DEFAULT_LINES) - 1})"

    async def validate(self, given: ReadInput, context: ToolContext) -> Failure | None:
        path = given.file_path
        problem = paths.check_path(path) if parse_result_path(path) is None else paths.check_length(path)
        if problem is not None:
            return Failure(problem, read_state.RELATIVE)
        if is_stream(paths.normalize_path(path)):
            return Failure(f"{path} is a stream without an end, not a file.")
        if given.offset is not None and given.offset < 0:
            return Failure(f"offset is {given.offset}, but lines are counted from 1.")
        if given.limit is not None and given.limit < 1:
            return Failure(f"limit is {given.limit}, but must be 1 or more.")
        if given.pages is None:
            return None
        pages = pdf.parse_pages(given.pages)
        return Failure(pages) if isinstance(pages, str) else None

    async def check_permission(self, given: ReadInput, context: ToolContext) -> Check:
        if parse_result_path(given.file_path) is not None:
            return Allow()  # the session made it itself
        try:
            place, check = check_access(given.file_path, context.session, cached_io.resolve_path)
        except cached_io.WouldBlock:
            place, check = await read_in_thread(check_access, given.file_path, context.session)
        self._approved.note(context.call_id, place)
        return check

    async def run(self, given: ReadInput, context: ToolContext) -> ToolResult[ReadOutput] | Failure:
        first, count = max(1, given.offset or 1), given.limit or DEFAULT_LINES
        if parse_result_path(given.file_path) is not None:
            return await _read_stored_result(given, first, count, context)
        try:
            try:
                found = _read_cached(given.file_path, first, count)
            except cached_io.WouldBlock:
                found = await read_in_thread(_read_file, given.file_path, first, count)
            if self._approved.has_moved(context.call_id, found.place):
                return Failure(f"{given.file_path} leads to another place than when it was allowed.")
            return await _build_result(given, found, first, count, context)
        except FileNotFoundError:
            nameable = build_path_filter(context.session, allowed=True)
            return Failure(await read_in_thread(describe_missing, given.file_path, nameable), read_state.MISSING)
        except Unreadable as error:
            return Failure(paths.make_printable(str(error)))  # it names the real path, which may not be UTF-8
        except OSError as error:
            return Failure(f"{given.file_path[:500]} cannot be read: {error.strerror}.")

    def render(self, output: ReadOutput) -> list[Block]:
        return render_output(output)


def _read_cached(path: str, first: int, count: int) -> _OpenedFile:
    """Reads plain text from the page cache. Raises WouldBlock where a thread has to read it, as for other formats."""
    content = cached_io.read_file(path)
    if detect_kind(path, content.data[:HEAD_BYTES]) != "text":
        raise cached_io.WouldBlock
    return _OpenedFile(content.real_path, "text", content.status, read_cached_window(content, first, count))


def _read_file(path: str, first: int, count: int) -> _OpenedFile:
    place = paths.resolve_path(path)
    if is_stream(paths.normalize_path(path)) or is_stream(place):
        raise Unreadable(f"{path} is a stream without an end, not a file.")
    descriptor = open_regular(place)
    with open(descriptor, "rb") as file:
        # Taken before the content: a change while it is read then shows as a status that no longer matches.
        status = os.fstat(descriptor)
        head = file.read(HEAD_BYTES)
        if head is None:  # a non-blocking descriptor has nothing yet
            raise Unreadable(f"{path} is a stream without an end, not a file.")
        kind = detect_kind(path, head)
        file.seek(0)
        return _OpenedFile(
            place, kind, status, read_window(place, status, file, first, count) if kind == "text" else None
        )


async def _build_result(
    given: ReadInput, found: _OpenedFile, first: int, count: int, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    path, place = given.file_path, found.place
    if given.pages is not None and found.kind != "pdf":
        return Failure(f"pages is for PDF documents, and {path} is none. Use offset and limit.")
    match found.kind:
        case "text":
            assert found.window is not None
            return _show_lines(path, place, found.window, first, count, context)
        case "image":
            return await read_image(path, place, found.status, context)
        case "notebook":
            return await read_notebook(path, place, first, given.limit, context)
        case "pdf":
            return await _read_pdf(given, found, context)


async def _read_pdf(given: ReadInput, found: _OpenedFile, context: ToolContext) -> ToolResult[ReadOutput] | Failure:
    if given.offset is not None or given.limit is not None:
        return Failure(f"offset and limit count lines, and {given.file_path} is a PDF document. Use pages.")
    pages = pdf.parse_pages(given.pages) if given.pages is not None else None
    if isinstance(pages, str):  # a hook may have changed the input since it was validated
        return Failure(pages)
    return await read_document(given.file_path, found.place, found.status, pages, context)


def _show_lines(
    path: str, place: str, window: Window, first: int, count: int, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    total, status = window.total_lines, window.status
    if total == 0:
        remember(place, status, window.digest, total, None, context)
        return ToolResult(TextOutput(file_path=path, warning="The file is empty."))
    if first > total:
        words = f"The file has only {total} lines: line {first} is past its end."
        return ToolResult(TextOutput(file_path=path, start_line=first, total_lines=total, warning=words))
    shown = (first, min(first + count - 1, total))
    # A long line that is requested alone was cut when it was shown before.
    lone = count == 1 and any(len(line) > MAX_LINE for line in window.lines)
    if not lone and is_shown(place, status, shown, context):
        return report_unchanged(path, "These lines are", total)
    tokens = context.session.config.tools.read_tokens
    max_bytes = tokens * BYTES_PER_TOKEN
    content = "\n".join(cut_requested_line(line, count, max_bytes) for line in window.lines)
    if window.overflowed or is_too_long(content, context):
        words = f"Lines {shown[0]}-{shown[1]} of {path} are more than {tokens} tokens."
        return Failure(f"{words} Read fewer with offset and limit, or find the place with Grep.")
    remember(place, status, window.digest, total, shown, context)
    return ToolResult(
        TextOutput(file_path=path, content=content, num_lines=len(window.lines), start_line=first, total_lines=total)
    )


async def _read_stored_result(
    given: ReadInput, first: int, count: int, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    """A persisted result never changes, so nothing has to be remembered about what was read of it."""
    path = given.file_path
    if given.pages is not None:
        return Failure(f"pages is for PDF documents, and {path} is none. Use offset and limit.")
    found = await read_result(
        path, first, count, context.services.results, max_tokens=context.session.config.tools.read_tokens
    )
    if isinstance(found, Failure):
        return found
    return ToolResult(
        TextOutput(
            file_path=path,
            content=found.content,
            num_lines=found.num_lines,
            start_line=found.start_line,
            total_lines=found.total_lines,
            warning=found.warning,
        )
    )
