"""Glob: files by name, the newest first."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from pydantic import Field

from ostler.tools import paths, ripgrep, search_place
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.globs import BadPattern, matcher, names_something
from ostler.tools.paths import Approved
from ostler.tools.result_text import result_of
from ostler.tools.ripgrep import Search
from ostler.tools.search_place import Start
from ostler.tools.subject import Subject
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Block, Check, Failure, Ran, Tool, ToolInput, ToolOutput, text_block


class GlobInput(ToolInput):
    """What to look for, and where."""

    pattern: str = Field(description="The pattern, such as `**/*.py` or `src/*.{ts,tsx}`.")
    path: str | None = Field(None, description="The folder to look in; the session's own if not given.")


class GlobOutput(ToolOutput):
    """The files, the newest first."""

    filenames: list[str]
    num_files: int
    truncated: bool
    timed_out: bool = False
    """It took too long: there may be more."""
    duration_ms: int


class Glob(Tool[GlobInput, GlobOutput]):
    """Finds files by the pattern of their names."""

    name = "Glob"
    Input = GlobInput
    Output = GlobOutput
    title = "Finds files by name"
    search_hint = "find list files names pattern wildcard"
    max_result_chars = 30_000
    only_reads = True

    def __init__(self) -> None:
        self._approved = Approved()

    def activity(self, given: GlobInput) -> Activity:
        return "list"

    def description(self, surroundings: Surroundings) -> str:
        return super().description(surroundings).replace("{most}", str(surroundings.most_files), 1)

    def is_concurrency_safe(self, given: GlobInput) -> bool:
        return True

    def path(self, given: GlobInput) -> str | None:
        return given.path

    def summary(self, given: GlobInput) -> str:
        return f"Glob {given.pattern[:200]}" + (f" in {paths.shortened(given.path)}" if given.path else "")

    async def validate(self, given: GlobInput, context: ToolContext) -> Failure | None:
        flaw = search_place.unusable(given.pattern, given.path)
        flaw = flaw or search_place.too_long(given.path, context.surroundings)
        if flaw is not None:
            return flaw
        if result_of(given.path) is not None:
            return Failure(f"{given.path} is a persisted result: read it with Read, or search it with Grep.")
        if not given.pattern:
            return Failure("The pattern is empty: `**` finds every file.")
        if ".." in given.pattern.split("/"):
            return Failure("The pattern cannot lead upwards with `..`: give the folder as path.")
        return await read_in_thread(_flaw, given, context.surroundings)

    async def subject(self, given: GlobInput, surroundings: Surroundings) -> Subject:
        return await read_in_thread(search_place.subject, given.path, surroundings, given.pattern)

    async def check_permission(self, given: GlobInput, context: ToolContext) -> Check:
        begin = await read_in_thread(search_place.start, given.path, context.surroundings, given.pattern)
        self._approved.note(context.call_id, begin.place)
        return await read_in_thread(search_place.may_search, self.name, begin, context.surroundings)

    async def run(self, given: GlobInput, context: ToolContext) -> Ran[GlobOutput] | Failure:
        started, most = time.monotonic(), context.surroundings.most_files
        begin = await read_in_thread(search_place.start, given.path, context.surroundings, given.pattern)
        if self._approved.moved(context.call_id, begin.place):
            return search_place.moved(begin)
        try:
            found = await _find(given, begin, most)
        except (ripgrep.Complaint, ripgrep.Missing) as error:
            return Failure(str(error))
        output = GlobOutput(
            filenames=[begin.found(name) for name in found.names[:most]],
            num_files=min(len(found.names), most),
            truncated=len(found.names) > most,
            timed_out=found.out_of_time,
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        return Ran(output)

    def render(self, output: GlobOutput) -> list[Block]:
        lines = list(output.filenames) or ["No files found"]
        if output.truncated:
            lines.append(f"(only the {output.num_files} newest are shown; a narrower pattern or path finds the others)")
        if output.timed_out:
            lines.append(ripgrep.STOPPED)
        return [text_block("\n".join(lines))]


@dataclass(frozen=True, slots=True)
class _Found:
    names: list[str]
    out_of_time: bool


def _flaw(given: GlobInput, surroundings: Surroundings) -> Failure | None:
    try:
        matcher(given.pattern)
    except BadPattern as error:
        return Failure(str(error))
    return _no_folder(given, surroundings)


def _no_folder(given: GlobInput, surroundings: Surroundings) -> Failure | None:
    flaw = search_place.missing(given.path, surroundings)
    begin = search_place.start(given.path, surroundings)
    if flaw is None and begin.base != begin.place:
        return Failure(f"{begin.written} is a file, not a folder to look in.")
    return flaw or search_place.closed(search_place.start(given.path, surroundings, given.pattern))


async def _find(given: GlobInput, begin: Start, most: int) -> _Found:
    options = ["--files", *ripgrep.exclusions(begin.place, begin.home, given.pattern), "--", begin.place]

    def work(search: Search) -> _Found:
        matches = matcher(begin.pattern)
        # One more than is shown tells that there are more.
        newest = nlargest(most + 1, _dated(search, begin, matches))
        return _Found([name for _, name in newest], search.out_of_time)

    found = await ripgrep.search(options, work)
    if not found.names and names_something(given.pattern):
        # What .gitignore leaves out is looked for only by somebody who names it.
        found = await ripgrep.search(["--no-ignore", *options], work)
    return found


def _dated(search: Search, begin: Start, matches: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    inside = len(begin.base.rstrip("/")) + 1
    all_visible = begin.may_read is None
    for record in search.records(b"\0"):
        name = record.decode("utf-8", "surrogateescape")
        if matches(name[inside:]) and (all_visible or begin.visible(name)):
            try:
                yield os.lstat(name).st_mtime_ns, name
            except OSError:
                continue  # It went away meanwhile.
