"""Read: text by line, images, notebooks by cell, PDF documents by page, and persisted results."""

import os
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.files.editing import read_state
from ostler.tools.files.reading.line_reader import Window, look_at, window
from ostler.tools.files.reading.media import read_document, read_image, read_notebook
from ostler.tools.files.reading.output import ReadOutput, TextOutput, rendered
from ostler.tools.files.reading.shown import BYTES_PER_TOKEN, is_shown, remember, too_long, unchanged
from ostler.tools.files.reading.stored_result import read_result
from ostler.tools.formats import pdf
from ostler.tools.fs import cached_io, paths
from ostler.tools.fs.file_type import HEAD, Kind, kind_of
from ostler.tools.fs.similar_paths import known_to, missing_file
from ostler.tools.fs.text_file import Unreadable, is_stream, open_regular
from ostler.tools.permissions.subject import OfText, Subject
from ostler.tools.search.stored_text import result_of
from ostler.tools.text import MAX_LINE, cut_of
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Allow,
    AskFirst,
    Block,
    Check,
    Failure,
    Ran,
    Refuse,
    Tool,
    ToolInput,
)

DEFAULT_LINES: Final = 2_000


class ReadInput(ToolInput):
    """Which file, and which part of it."""

    file_path: str = Field(description="Absolute path of the file, or result://ID.")
    offset: int | None = Field(None, description="The first line to show, counted from 1; in a notebook the cell.")
    limit: int | None = Field(None, description=f"How many lines to show; {DEFAULT_LINES} if not given.")
    pages: str | None = Field(None, description="Of a PDF document: '3', '1-5' or '10-', at most 20 pages.")


@dataclass(frozen=True, slots=True)
class _Found:
    """A file that was opened, and its lines where it has some."""

    place: str
    """Its real path."""
    kind: Kind
    status: os.stat_result
    window: Window | None = None


class Read(Tool[ReadInput, ReadOutput]):
    """Shows a file as a model can read it."""

    name = "Read"
    Input = ReadInput
    Output = ReadOutput
    title = "Reads a file, or a part of it"
    search_hint = "show open view cat file lines image notebook PDF content"
    strict = True
    max_result_chars = None
    only_reads = True

    def __init__(self) -> None:
        self._approved = paths.Approved()

    def description(self, surroundings: Surroundings) -> str:
        return super().description(surroundings).replace("{tokens}", f"{surroundings.read_tokens:,}", 1)

    def activity(self, given: ReadInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: ReadInput) -> bool:
        return True

    def path(self, given: ReadInput) -> str:
        return given.file_path

    def summary(self, given: ReadInput) -> str:
        path = paths.shortened(given.file_path)
        if given.pages is not None:
            return f"Read {path} (pages {given.pages[:50]})"
        if given.offset is None and given.limit is None:
            return f"Read {path}"
        first = given.offset or 1
        return f"Read {path} (lines {first}-{first + (given.limit or DEFAULT_LINES) - 1})"

    async def subject(self, given: ReadInput, surroundings: Surroundings) -> Subject:
        if result_of(given.file_path) is not None:
            return OfText(given.file_path)
        return await super().subject(given, surroundings)

    async def validate(self, given: ReadInput, context: ToolContext) -> Failure | None:
        path = given.file_path
        flaw = paths.flaw(path) if result_of(path) is None else paths.too_long(path)
        if flaw is not None:
            return Failure(flaw, read_state.RELATIVE)
        if is_stream(paths.written(path)):
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
        if result_of(given.file_path) is not None:
            return Allow()  # the session made it itself
        try:
            place, check = _checked(given.file_path, context.surroundings, cached_io.real)
        except cached_io.WouldWait:
            place, check = await read_in_thread(_checked, given.file_path, context.surroundings, paths.real)
        self._approved.note(context.call_id, place)
        return check

    async def run(self, given: ReadInput, context: ToolContext) -> Ran[ReadOutput] | Failure:
        first, count = max(1, given.offset or 1), given.limit or DEFAULT_LINES
        if result_of(given.file_path) is not None:
            return await _result(given, first, count, context)
        try:
            try:
                found = _look_at_once(given.file_path, first, count)
            except cached_io.WouldWait:
                found = await read_in_thread(_look, given.file_path, first, count)
            if self._approved.moved(context.call_id, found.place):
                return Failure(f"{given.file_path} leads to another place than when it was allowed.")
            return await _answer(given, found, first, count, context)
        except FileNotFoundError:
            nameable = known_to(context.surroundings, allowed=True)
            return Failure(await read_in_thread(missing_file, given.file_path, nameable), read_state.MISSING)
        except Unreadable as error:
            return Failure(paths.printable(str(error)))  # it names the real path, which may not be UTF-8
        except OSError as error:
            return Failure(f"{given.file_path[:500]} cannot be read: {error.strerror}.")

    def render(self, output: ReadOutput) -> list[Block]:
        return rendered(output)


def _checked(path: str, surroundings: Surroundings, real: paths.Real) -> tuple[str, Check]:
    """Where the path leads, and whether that may be read."""
    place = real(path)
    return place, _may_read(path, place, surroundings, real)


def _may_read(path: str, place: str, surroundings: Surroundings, real: paths.Real) -> Check:
    """Allowed inside the roots; the daemon's own folder is nobody's business."""
    if paths.of_the_daemon(place, surroundings, real):
        return Refuse(f"{path} is in the daemon's own folder.")
    if paths.inside_roots(place, surroundings, real):
        return Allow()
    leads = "" if place == paths.written(path) else f", which leads to {place}"
    return AskFirst(f"Read {path}{leads}?", reason="It is outside the session's folders.")


def _look_at_once(path: str, first: int, count: int) -> _Found:
    """Raises WouldWait where a thread has to look; what is no plain text is a thread's work, too."""
    content = cached_io.content(path)
    if kind_of(path, content.data[:HEAD]) != "text":
        raise cached_io.WouldWait
    return _Found(content.place, "text", content.status, look_at(content, first, count))


def _look(path: str, first: int, count: int) -> _Found:
    place = paths.real(path)
    if is_stream(paths.written(path)) or is_stream(place):
        raise Unreadable(f"{path} is a stream without an end, not a file.")
    descriptor = open_regular(place)
    with open(descriptor, "rb") as file:
        # Taken before the content: whatever changes while it is read makes the file another one than this.
        status = os.fstat(descriptor)
        head = file.read(HEAD)
        if head is None:  # nothing yet, says a descriptor that does not wait
            raise Unreadable(f"{path} is a stream without an end, not a file.")
        kind = kind_of(path, head)
        file.seek(0)
        return _Found(place, kind, status, window(place, status, file, first, count) if kind == "text" else None)


async def _answer(
    given: ReadInput, found: _Found, first: int, count: int, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    path, place = given.file_path, found.place
    if given.pages is not None and found.kind != "pdf":
        return Failure(f"pages is for PDF documents, and {path} is none. Use offset and limit.")
    match found.kind:
        case "text":
            assert found.window is not None
            return _lines(path, place, found.window, first, count, context)
        case "image":
            return await read_image(path, place, found.status, context)
        case "notebook":
            return await read_notebook(path, place, first, given.limit, context)
        case "pdf":
            return await _document(given, found, context)


async def _document(given: ReadInput, found: _Found, context: ToolContext) -> Ran[ReadOutput] | Failure:
    if given.offset is not None or given.limit is not None:
        return Failure(f"offset and limit count lines, and {given.file_path} is a PDF document. Use pages.")
    pages = pdf.parse_pages(given.pages) if given.pages is not None else None
    if isinstance(pages, str):  # a hook may have changed the input since it was looked at
        return Failure(pages)
    return await read_document(given.file_path, found.place, found.status, pages, context)


def _lines(
    path: str, place: str, window: Window, first: int, count: int, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    total, status = window.total_lines, window.status
    if total == 0:
        remember(place, status, window.digest, total, None, context)
        return Ran(TextOutput(file_path=path, warning="The file is empty."))
    if first > total:
        words = f"The file has only {total} lines: line {first} is past its end."
        return Ran(TextOutput(file_path=path, start_line=first, total_lines=total, warning=words))
    shown = (first, min(first + count - 1, total))
    # A long line that is asked for alone is asked for because it was cut before.
    lone = count == 1 and any(len(line) > MAX_LINE for line in window.lines)
    if not lone and is_shown(place, status, shown, context):
        return unchanged(path, "These lines are", total)
    tokens = context.surroundings.read_tokens
    max_bytes = tokens * BYTES_PER_TOKEN
    content = "\n".join(cut_of(line, count, max_bytes) for line in window.lines)
    if window.overflowed or too_long(content, context):
        words = f"Lines {shown[0]}-{shown[1]} of {path} are more than {tokens} tokens."
        return Failure(f"{words} Read fewer with offset and limit, or find the place with Grep.")
    remember(place, status, window.digest, total, shown, context)
    return Ran(
        TextOutput(file_path=path, content=content, num_lines=len(window.lines), start_line=first, total_lines=total)
    )


async def _result(given: ReadInput, first: int, count: int, context: ToolContext) -> Ran[ReadOutput] | Failure:
    """A persisted result is a text that nobody can change: nothing is to be remembered of it."""
    path = given.file_path
    if given.pages is not None:
        return Failure(f"pages is for PDF documents, and {path} is none. Use offset and limit.")
    found = await read_result(path, first, count, context.results, max_tokens=context.surroundings.read_tokens)
    if isinstance(found, Failure):
        return found
    return Ran(
        TextOutput(
            file_path=path,
            content=found.content,
            num_lines=found.num_lines,
            start_line=found.start_line,
            total_lines=found.total_lines,
            warning=found.warning,
        )
    )
