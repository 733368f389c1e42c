"""Grep: text in files, with the real ripgrep."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from ostler.protocol.ids import ResultId
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.fs import paths
from ostler.tools.fs.paths import Approved
from ostler.tools.permissions.subject import OfText, Subject
from ostler.tools.search import ignore_files, ripgrep, search_root
from ostler.tools.search.glob_pattern import BadPattern, matcher
from ostler.tools.search.grep_output import MAX_CHARS, Collected, NameFilter, Origin, Wanted, collect
from ostler.tools.search.search_root import Start
from ostler.tools.search.stored_text import result_of, spooled
from ostler.tools.services import NoSuchResult
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Allow, Block, Check, Failure, Ran, Tool, ToolInput, ToolOutput, text_block

Mode = Literal["content", "files_with_matches", "count"]
DEFAULT_LIMIT: Final = 250
_MAX_NUMBER: Final = 2**31 - 1
_MAX_OFFSET: Final = 1_000_000
_MAX_COLUMNS: Final = MAX_CHARS * 4
"""Bytes, as ripgrep counts them: in which as many characters fit as are shown of a line, in any script."""
_MAX_GLOBS: Final = 100
_SPELLED: Final = re.compile(r"\r|\\[rxuU]")
"""A carriage return, or what may be one, in a pattern."""


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """The one name that there is."""

    result_id: ResultId

    def relative(self, name: str) -> str:
        return name

    def found(self, name: str) -> str:
        return f"result://{self.result_id}"

    def visible(self, name: str) -> bool:
        return True


async def search_result(options: Sequence[str], pieces: AsyncIterator[str], wanted: Wanted) -> Collected:
    """Raises NoSuchResult, and what ripgrep complains about."""
    async with spooled(pieces) as text:
        # As text, whatever stands in it: what a command printed is no binary file because of a NUL.
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


class Grep(Tool[GrepInput, GrepOutput]):
    """Searches the contents of files."""

    name = "Grep"
    Input = GrepInput
    Output = GrepOutput
    title = "Searches the contents of files"
    search_hint = "search find text regex content matches ripgrep"
    strict = True
    max_result_chars = 20_000
    only_reads = True

    def __init__(self) -> None:
        self._approved = Approved()

    def activity(self, given: GrepInput) -> Activity:
        return "search"

    def is_concurrency_safe(self, given: GrepInput) -> bool:
        return True

    def path(self, given: GrepInput) -> str | None:
        return given.path

    def summary(self, given: GrepInput) -> str:
        return f"Grep {given.pattern[:200]}" + (f" in {paths.shortened(given.path)}" if given.path else "")

    async def validate(self, given: GrepInput, context: ToolContext) -> Failure | None:
        flaw = search_root.unusable(given.pattern, given.path, given.glob, given.type)
        flaw = flaw or search_root.too_long(given.path, context.surroundings)
        if flaw is not None:
            return flaw
        numbers = {"-A": given.after, "-B": given.before, "-C": given.around, "context": given.context}
        for name, number in {**numbers, "head_limit": given.head_limit, "offset": given.offset}.items():
            if number is not None and not 0 <= number <= _MAX_NUMBER:
                return Failure(f"{name} is {number}, but must be from 0 to {_MAX_NUMBER}.")
        if given.offset > _MAX_OFFSET:
            return Failure(f"offset is {given.offset}, but must be at most {_MAX_OFFSET}: search for less.")
        if result_of(given.path) is not None:
            return Failure("glob and type choose files, and a result is none.") if given.glob or given.type else None
        return await read_in_thread(_flaw, given, context.surroundings)

    async def subject(self, given: GrepInput, surroundings: Surroundings) -> Subject:
        if given.path is not None and result_of(given.path) is not None:
            return OfText(given.path)
        return await read_in_thread(search_root.subject, given.path, surroundings)

    async def check_permission(self, given: GrepInput, context: ToolContext) -> Check:
        if result_of(given.path) is not None:
            return Allow()  # the session made it itself
        begin = await read_in_thread(search_root.start, given.path, context.surroundings)
        self._approved.note(context.call_id, begin.place)
        return await read_in_thread(search_root.may_search, self.name, begin, context.surroundings)

    async def run(self, given: GrepInput, context: ToolContext) -> Ran[GrepOutput] | Failure:
        try:
            found = await self._found(given, context)
        except (ripgrep.Complaint, ripgrep.Missing, NoSuchResult) as error:
            return Failure(str(error))
        return found if isinstance(found, Failure) else Ran(_output(given, found))

    async def _found(self, given: GrepInput, context: ToolContext) -> Collected | Failure:
        result_id = result_of(given.path)
        if result_id is not None:
            wanted = _wanted(given, ResultOrigin(result_id))
            return await search_result(_own_options(given), context.results.pieces(result_id), wanted)
        begin = await read_in_thread(search_root.start, given.path, context.surroundings)
        if self._approved.moved(context.call_id, begin.place):
            return search_root.moved(begin)
        options = await read_in_thread(_options, given, begin)
        # On the thread of the search, since it compiles the pattern of names.
        return await ripgrep.search(options, lambda search: collect(search, _wanted(given, begin)))

    def render(self, output: GrepOutput) -> list[Block]:
        stopped = [ripgrep.STOPPED] if output.timed_out else []
        if not output.filenames and not output.content:
            nothing = "No more matches" if output.applied_offset else "No matches found"
            return [text_block("\n".join([nothing, *stopped]))]
        lines = [output.content] if output.mode != "files_with_matches" else list(output.filenames)
        if output.applied_limit is not None:
            onward = (output.applied_offset or 0) + output.applied_limit
            lines.append(f"(cut after {output.applied_limit}; go on with offset {onward}, or search for less)")
        return [text_block("\n".join([*lines, *stopped]))]


def _flaw(given: GrepInput, surroundings: Surroundings) -> Failure | None:
    try:
        _name_filter(given.glob)
    except BadPattern as error:
        return Failure(str(error))
    return search_root.missing(given.path, surroundings)


def _wanted(given: GrepInput, begin: Origin) -> Wanted:
    return Wanted(
        mode=given.output_mode,
        begin=begin,
        line_numbers=given.line_numbers,
        context=any(_context(given)),
        limit=given.head_limit,
        offset=given.offset,
        matches=_name_filter(given.glob),
    )


def _name_filter(glob: str | None) -> NameFilter | None:
    if not glob:
        return None
    matchers = [matcher(each.removeprefix("!")) for each in _globs(glob)]
    wanted = not glob.startswith("!")
    if wanted and len(matchers) == 1:
        return matchers[0]
    return lambda name: any(matches(name) for matches in matchers) == wanted


def _globs(glob: str) -> list[str]:
    """Several, as models write them; and all of it, since a name may have blanks and commas, too."""
    several = re.split(r"[,\s]+", glob.strip(", ")) if "{" not in glob else []
    return [glob, *several] if 1 < len(several) <= _MAX_GLOBS else [glob]


def _options(given: GrepInput, begin: Start) -> list[str]:
    exclusions = ripgrep.exclusions(begin.place, begin.home, begin.written)
    rules = ignore_files.WITHOUT_RULES_ABOVE if ignore_files.hides(begin.base) else ()
    return [*exclusions, *rules, *_type_options(given), *_own_options(given), "--", begin.place]


def _own_options(given: GrepInput) -> list[str]:
    """Whatever is searched."""
    options = [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview"]
    options += ["--ignore-case"] if given.ignore_case else []
    # Lines are shown without their carriage return, and end before it; ripgrep refuses a pattern that names it then.
    options += ["--crlf"] if "$" in given.pattern and not _SPELLED.search(given.pattern) else []
    options += ["--multiline", "--multiline-dotall"] if given.multiline else []
    match given.output_mode:
        case "content":
            # In the order of paths, so that an offset means the same the next time.
            options += ["--with-filename", "--line-number", "--no-heading", "--sort=path", *_context_options(given)]
            # Told apart by their numbers: a line without a name is not to be mistaken for one.
            options.append("--no-context-separator")
        case "count":
            options += ["--with-filename", "--count", "--sort=path"]
        case "files_with_matches":
            options.append("--files-with-matches")
    return [*options, f"--regexp={given.pattern}"]


def _type_options(given: GrepInput) -> list[str]:
    """A kind of files. A pattern of names becomes one too: unlike --glob, it leaves .gitignore in force."""
    if given.type:
        return [f"--type={given.type}"]
    if not given.glob or given.glob.startswith("!") or "{" in given.glob.rpartition("/")[0]:
        return []
    names = [each.rsplit("/", 1)[-1] for each in _globs(given.glob)]
    if any(not name or name.startswith("!") or name in {"*", "**"} for name in names):
        return []
    return [*(f"--type-add=wanted:{name}" for name in names), "--type=wanted"]


def _context_options(given: GrepInput) -> list[str]:
    before, after = _context(given)
    return [f"--before-context={before}", f"--after-context={after}"]


def _context(given: GrepInput) -> tuple[int, int]:
    """Lines that are shown before and after a match."""
    around = given.around if given.around is not None else given.context
    before = given.before if given.before is not None else around
    after = given.after if given.after is not None else around
    return before or 0, after or 0


def _output(given: GrepInput, found: Collected) -> GrepOutput:
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
