"""Grep: searches the contents of files and persisted results with ripgrep."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from ostler.protocol.ids import ResultId
from ostler.protocol.patterns import compile_later
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.fs import paths
from ostler.tools.fs.paths import ApprovedPaths
from ostler.tools.permissions.subject import Subject, TextSubject
from ostler.tools.search import ignore_files, ripgrep, search_root
from ostler.tools.search.glob_pattern import BadPattern, compile_pattern
from ostler.tools.search.grep_output import MAX_CHARS, GrepMatches, NameFilter, Origin, OutputSelection, collect
from ostler.tools.search.search_root import SearchRoot
from ostler.tools.search.stored_text import parse_result_path, spool
from ostler.tools.services import NoSuchResult
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Allow,
    Block,
    Check,
    Failure,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits

Mode = Literal["content", "files_with_matches", "count"]
DEFAULT_LIMIT: Final = 250
_MAX_NUMBER: Final = 2**31 - 1
_MAX_OFFSET: Final = 1_000_000
_MAX_COLUMNS: Final = MAX_CHARS * 4
"""Bytes of a line that ripgrep prints: enough for the characters that are shown, in any script."""
_MAX_GLOBS: Final = 100
_CARRIAGE_RETURN: Final = compile_later(r"\r|\\[rxuU]")
"""A carriage return, or an escape that may be one, in a pattern."""


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """A persisted result as the origin of matches: there is only its own name."""

    result_id: ResultId

    def make_relative(self, name: str) -> str:
        return name

    def format_name(self, name: str) -> str:
        return f"result://{self.result_id}"

    def is_visible(self, name: str) -> bool:
        return True


async def search_result(options: Sequence[str], pieces: AsyncIterator[str], wanted: OutputSelection) -> GrepMatches:
    """Searches a persisted result. Raises NoSuchResult and RipgrepError."""
    async with spool(pieces) as text:
        # As text, whatever it contains: the output of a command is no binary file because of a NUL.
        arguments = ["--text", *options, "--", "-"]
        return await ripgrep.search(arguments, lambda search: collect(search, wanted), text)


class GrepInput(ToolInput):
    """What to look for, where, and what to show."""

    pattern: str = Field(description="A regular expression, as ripgrep takes it.")
    path: str | None = Field(None, description="A file or folder; the session's own folder if not given.")
    glob: str | None = Field(None, description="Only files whose names match, such as `*.py` or `src/**/*.{ts,tsx}`.")
    type: str | None = Field(None, description="Only files of a kind that ripgrep knows, such as `py` or `rust`.")
    output_mode: Mode = Field("files_with_matches", description="What to show of the matches.")
    after: int | None = Field(None, alias="-A", description="Lines to show after each match (content only).")
    before: int | None = Field(None, alias="-B", description="Lines to show before each match (content only).")
    around: int | None = Field(None, alias="-C", description="Lines to show around each match (content only).")
    context: int | None = Field(None, description="The same as -C.")
    line_numbers: bool = Field(True, alias="-n", description="Show line numbers (content only).")
    ignore_case: bool = Field(False, alias="-i", description="Take large and small letters as equal.")
    head_limit: int = Field(DEFAULT_LIMIT, description="At most so many lines or files; 0 for all.")
    offset: int = Field(0, description="Leave out so many lines or files first.")
    multiline: bool = Field(False, description="Let a match reach across lines; `.` matches line ends too.")


class GrepOutput(ToolOutput):
    """What was found."""

    mode: Mode
    num_files: int
    filenames: list[str]
    content: str = ""
    num_lines: int = 0
    num_matches: int = 0
    applied_limit: int | None = None
    """Set where something was cut."""
    applied_offset: int | None = None
    timed_out: bool = False
    """It took too long: there may be more."""


async def _find_subject(given: GrepInput, session: SessionView) -> Subject:
    if given.path is not None and parse_result_path(given.path) is not None:
        return TextSubject(given.path)
    return await read_in_thread(search_root.build_subject, given.path, session)


class Grep(Tool[GrepInput, GrepOutput]):
    """Searches the contents of files."""

    name = "Grep"
    Input = GrepInput
    Output = GrepOutput
    title = "Searches the contents of files"
    given_to_agents = "all"
    search_hint = "search find text regex content matches ripgrep"
    strict = True
    max_result_chars = 20_000
    only_reads = True
    permissions = PermissionTraits(path="path", subject=_find_subject)

    def __init__(self) -> None:
        self._approved = ApprovedPaths()

    def activity(self, given: GrepInput) -> Activity:
        return "search"

    def is_concurrency_safe(self, given: GrepInput) -> bool:
        return True

    def summary(self, given: GrepInput) -> str:
        return f"Grep {given.pattern[:200]}" + (f" in {paths.shorten_path(given.path)}" if given.path else "")

    async def validate(self, given: GrepInput, context: ToolContext) -> Failure | None:
        failure = search_root.check_texts(given.pattern, given.path, given.glob, given.type)
        failure = failure or search_root.check_length(given.path, context.session)
        if failure is not None:
            return failure
        numbers = {"-A": given.after, "-B": given.before, "-C": given.around, "context": given.context}
        for name, number in {**numbers, "head_limit": given.head_limit, "offset": given.offset}.items():
            if number is not None and not 0 <= number <= _MAX_NUMBER:
                return Failure(f"{name} is {number}, but must be from 0 to {_MAX_NUMBER}.")
        if given.offset > _MAX_OFFSET:
            return Failure(f"offset is {given.offset}, but must be at most {_MAX_OFFSET}: search for less.")
        if parse_result_path(given.path) is not None:
            return Failure("glob and type choose files, and a result is none.") if given.glob or given.type else None
        return await read_in_thread(_check_input, given, context.session)

    async def check_permission(self, given: GrepInput, context: ToolContext) -> Check:
        if parse_result_path(given.path) is not None:
            return Allow()  # the session made it itself
        root = await read_in_thread(search_root.resolve_root, given.path, context.session)
        self._approved.note(context.call_id, root.place)
        return await read_in_thread(search_root.may_search, self.name, root, context.session)

    async def run(self, given: GrepInput, context: ToolContext) -> ToolResult[GrepOutput] | Failure:
        try:
            found = await self._search(given, context)
        except (ripgrep.RipgrepError, ripgrep.RipgrepMissing, NoSuchResult) as error:
            return Failure(str(error))
        return found if isinstance(found, Failure) else ToolResult(_build_output(given, found))

    async def _search(self, given: GrepInput, context: ToolContext) -> GrepMatches | Failure:
        result_id = parse_result_path(given.path)
        if result_id is not None:
            wanted = _build_selection(given, ResultOrigin(result_id))
            return await search_result(
                _build_search_options(given), context.services.results.read_pieces(result_id), wanted
            )
        root = await read_in_thread(search_root.resolve_root, given.path, context.session)
        if self._approved.has_moved(context.call_id, root.place):
            return search_root.fail_moved(root)
        options = await read_in_thread(_build_options, given, root)
        # The selection is built on the thread of the search, since it compiles the glob.
        return await ripgrep.search(options, lambda search: collect(search, _build_selection(given, root)))

    def render(self, output: GrepOutput) -> list[Block]:
        stopped = [ripgrep.STOPPED_NOTE] if output.timed_out else []
        if not output.filenames and not output.content:
            nothing = "No more matches" if output.applied_offset else "No matches found"
            return [text_block("\n".join([nothing, *stopped]))]
        lines = [output.content] if output.mode != "files_with_matches" else list(output.filenames)
        if output.applied_limit is not None:
            onward = (output.applied_offset or 0) + output.applied_limit
            lines.append(f"(cut after {output.applied_limit}; go on with offset {onward}, or search for less)")
        return [text_block("\n".join([*lines, *stopped]))]


def _check_input(given: GrepInput, session: SessionView) -> Failure | None:
    try:
        _compile_name_filter(given.glob)
    except BadPattern as error:
        return Failure(str(error))
    return search_root.check_exists(given.path, session)


def _build_selection(given: GrepInput, origin: Origin) -> OutputSelection:
    return OutputSelection(
        mode=given.output_mode,
        origin=origin,
        line_numbers=given.line_numbers,
        context=any(_count_context_lines(given)),
        limit=given.head_limit,
        offset=given.offset,
        name_filter=_compile_name_filter(given.glob),
    )


def _compile_name_filter(glob: str | None) -> NameFilter | None:
    if not glob:
        return None
    matchers = [compile_pattern(each.removeprefix("!")) for each in _split_globs(glob)]
    wanted = not glob.startswith("!")
    if wanted and len(matchers) == 1:
        return matchers[0]
    return lambda name: any(matches(name) for matches in matchers) == wanted


def _split_globs(glob: str) -> list[str]:
    """Several globs in one text, as models write them; and the whole text, since a name may have blanks and commas."""
    several = re.split(r"[,\s]+", glob.strip(", ")) if "{" not in glob else []
    return [glob, *several] if 1 < len(several) <= _MAX_GLOBS else [glob]


def _build_options(given: GrepInput, root: SearchRoot) -> list[str]:
    exclusions = ripgrep.build_exclusions(root.place, root.home, root.written)
    rules = ignore_files.WITHOUT_RULES_ABOVE if ignore_files.is_hidden(root.base) else ()
    return [*exclusions, *rules, *_build_type_options(given), *_build_search_options(given), "--", root.place]


def _build_search_options(given: GrepInput) -> list[str]:
    """The options that apply to files and persisted results alike."""
    options = [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview"]
    options += ["--ignore-case"] if given.ignore_case else []
    # `$` matches before a carriage return; with this option ripgrep refuses a pattern that names one.
    options += ["--crlf"] if "$" in given.pattern and not _CARRIAGE_RETURN.search(given.pattern) else []
    options += ["--multiline", "--multiline-dotall"] if given.multiline else []
    match given.output_mode:
        case "content":
            # In the order of paths, so that an offset means the same the next time.
            options += [
                "--with-filename",
                "--line-number",
                "--no-heading",
                "--sort=path",
                *_build_context_options(given),
            ]
            # We separate groups by line numbers: a separator, which has no file name, could be mistaken for a line.
            options.append("--no-context-separator")
        case "count":
            options += ["--with-filename", "--count", "--sort=path"]
        case "files_with_matches":
            options.append("--files-with-matches")
    return [*options, f"--regexp={given.pattern}"]


def _build_type_options(given: GrepInput) -> list[str]:
    """The type of files. A glob becomes a type, too: unlike --glob, it leaves .gitignore in force."""
    if given.type:
        return [f"--type={given.type}"]
    if not given.glob or given.glob.startswith("!") or "{" in given.glob.rpartition("/")[0]:
        return []
    names = [each.rsplit("/", 1)[-1] for each in _split_globs(given.glob)]
    if any(not name or name.startswith("!") or name in {"*", "**"} for name in names):
        return []
    return [*(f"--type-add=wanted:{name}" for name in names), "--type=wanted"]


def _build_context_options(given: GrepInput) -> list[str]:
    before, after = _count_context_lines(given)
    return [f"--before-context={before}", f"--after-context={after}"]


def _count_context_lines(given: GrepInput) -> tuple[int, int]:
    """Lines that are shown before and after a match."""
    around = given.around if given.around is not None else given.context
    before = given.before if given.before is not None else around
    after = given.after if given.after is not None else around
    return before or 0, after or 0


def _build_output(given: GrepInput, found: GrepMatches) -> GrepOutput:
    return GrepOutput(
        mode=given.output_mode,
        num_files=len(found.filenames),
        filenames=found.filenames,
        content="\n".join(found.lines),
        num_lines=len(found.lines),
        num_matches=found.matches,
        applied_limit=(given.head_limit or found.taken) if found.cut else None,
        applied_offset=given.offset or None,
        timed_out=found.out_of_time,
    )
