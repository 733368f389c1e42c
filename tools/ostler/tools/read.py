"""Read: text files, by line."""

from dataclasses import replace
from typing import Final, Literal

from pydantic import Field

from ostler.tools import freshness, paths
from ostler.tools.context import FileRead, Surroundings, ToolContext
from ostler.tools.line_window import Window, look
from ostler.tools.numbering import cut, numbered
from ostler.tools.suggestions import missing_file
from ostler.tools.text_files import Unreadable, refuse_stream
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
    ToolOutput,
    text_block,
)

DEFAULT_LINES: Final = 2_000
MAX_TOKENS: Final = 25_000
_BYTES_PER_TOKEN: Final = 4  # what English and code come to, near enough for a bound


class ReadInput(ToolInput):
    """Which file, and which of its lines."""

    file_path: str = Field(description="Absolute path of the file.")
    offset: int | None = Field(None, description="The first line to show, counted from 1.")
    limit: int | None = Field(None, description=f"How many lines to show; {DEFAULT_LINES} if not given.")


class ReadOutput(ToolOutput):
    """Lines of a file, or why there are none."""

    kind: Literal["text", "file_unchanged"] = "text"
    file_path: str
    content: str = ""
    num_lines: int = 0
    start_line: int = 1
    total_lines: int = 0
    warning: str | None = None


class Read(Tool[ReadInput, ReadOutput]):
    """Shows a text file with its line numbers."""

    name = "Read"
    Input = ReadInput
    Output = ReadOutput
    title = "Reads a text file, or a part of it"
    search_hint = "show open view cat file lines content"
    strict = True
    max_result_chars = None
    only_reads = True

    def __init__(self) -> None:
        self._approved = paths.Approved()

    def activity(self, given: ReadInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: ReadInput) -> bool:
        return True

    def path(self, given: ReadInput) -> str:
        return given.file_path

    def summary(self, given: ReadInput) -> str:
        if given.offset is None and given.limit is None:
            return f"Read {given.file_path}"
        first = given.offset or 1
        return f"Read {given.file_path} (lines {first}-{first + (given.limit or DEFAULT_LINES) - 1})"

    async def validate(self, given: ReadInput, context: ToolContext) -> Failure | None:
        flaw = paths.flaw(given.file_path)
        if flaw is not None:
            return Failure(flaw, freshness.RELATIVE)
        if given.offset is not None and given.offset < 0:
            return Failure(f"offset is {given.offset}, but lines are counted from 1.")
        if given.limit is not None and given.limit < 1:
            return Failure(f"limit is {given.limit}, but must be 1 or more.")
        return None

    async def check_permission(self, given: ReadInput, context: ToolContext) -> Check:
        place, check = await read_in_thread(_checked, given.file_path, context.surroundings)
        self._approved.note(context.call_id, place)
        return check

    async def run(self, given: ReadInput, context: ToolContext) -> Ran[ReadOutput] | Failure:
        first, count = max(1, given.offset or 1), given.limit or DEFAULT_LINES
        try:
            place, window = await read_in_thread(_look, given.file_path, first, count)
        except FileNotFoundError:
            return Failure(await read_in_thread(missing_file, given.file_path), freshness.MISSING)
        except Unreadable as error:
            return Failure(str(error))
        except OSError as error:
            return Failure(f"{given.file_path} cannot be read: {error.strerror}.")
        if self._approved.moved(context.call_id, place):
            return Failure(f"{given.file_path} leads to another place than when it was allowed.")
        return _answer(given.file_path, place, window, first, count, context)

    def render(self, output: ReadOutput) -> list[Block]:
        if output.warning is not None:
            return [text_block(f"({output.warning})")]
        lines = output.content.split("\n")
        parts = [numbered(number, line) for number, line in enumerate(lines, output.start_line)]
        last = output.start_line + output.num_lines - 1
        if last < output.total_lines:
            parts.append(f"({output.total_lines - last} more lines; go on with offset {last + 1})")
        return [text_block("\n".join(parts))]


def _checked(path: str, surroundings: Surroundings) -> tuple[str, Check]:
    """Where the path leads, and whether that may be read."""
    place = paths.real(path)
    return place, _may_read(path, place, surroundings)


def _may_read(path: str, place: str, surroundings: Surroundings) -> Check:
    """Allowed inside the roots; the daemon's own folder is nobody's business."""
    if paths.of_the_daemon(place, surroundings):
        return Refuse(f"{path} is in the daemon's own folder.")
    if paths.inside_roots(place, surroundings):
        return Allow()
    leads = "" if place == paths.written(path) else f", which leads to {place}"
    return AskFirst(f"Read {path}{leads}?", reason="It is outside the session's folders.")


def _look(path: str, first: int, count: int) -> tuple[str, Window]:
    if path.lower().endswith(".ipynb"):
        raise Unreadable(f"{path} is a notebook, which cannot be read yet.")
    refuse_stream(paths.written(path))
    place = paths.real(path)
    return place, look(place, first, count)


def _answer(
    path: str, place: str, window: Window, first: int, count: int, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    if window.total_lines == 0:
        _remember(place, window, None, context)
        return Ran(ReadOutput(file_path=path, warning="The file is empty."))
    if first > window.total_lines:
        words = f"The file has only {window.total_lines} lines: line {first} is past its end."
        return Ran(ReadOutput(file_path=path, start_line=first, total_lines=window.total_lines, warning=words))
    shown = (first, min(first + count - 1, window.total_lines))
    before = context.reads.get(place)
    if before is not None and freshness.unchanged(before, window.status) and freshness.covers(before.shown, shown):
        words = "These lines are in the conversation already, and the file has not changed since."
        return Ran(ReadOutput(kind="file_unchanged", file_path=path, total_lines=window.total_lines, warning=words))
    content = "\n".join(map(cut, window.lines))
    if window.overflowed or len(content.encode()) // _BYTES_PER_TOKEN > MAX_TOKENS:
        return Failure(
            f"Lines {shown[0]}-{shown[1]} of {path} are more than {MAX_TOKENS} tokens. "
            "Read fewer with offset and limit, or find the place with Grep."
        )
    _remember(place, window, shown, context)
    count = len(window.lines)
    return Ran(
        ReadOutput(file_path=path, content=content, num_lines=count, start_line=first, total_lines=window.total_lines)
    )


def _remember(place: str, window: Window, shown: tuple[int, int] | None, context: ToolContext) -> None:
    """What was seen before counts as long as the content is the same."""
    before = context.reads.get(place)
    known = before if before is not None and before.digest == window.digest else None
    read = FileRead(window.status.st_mtime_ns, window.status.st_size, window.digest, (), window.total_lines)
    if shown is not None:
        ranges = freshness.merged(known.ranges if known else (), shown)
        read = replace(read, ranges=ranges, shown=freshness.merged(known.shown if known else (), shown))
    context.reads.put(place, read)
