"""Glob: files by name, the newest first."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from pydantic import Field

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.fs import paths
from ostler.tools.fs.paths import Approved
from ostler.tools.permissions.subject import Subject
from ostler.tools.search import ignore_files, ripgrep, search_root
from ostler.tools.search.glob_pattern import BadPattern, matcher, spelled_out
from ostler.tools.search.ripgrep import Search
from ostler.tools.search.search_root import Start
from ostler.tools.search.stored_text import result_of
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
        flaw = search_root.unusable(given.pattern, given.path)
        flaw = flaw or search_root.too_long(given.path, context.surroundings)
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
        return await read_in_thread(search_root.subject, given.path, surroundings, given.pattern)

    async def check_permission(self, given: GlobInput, context: ToolContext) -> Check:
        begin = await read_in_thread(search_root.start, given.path, context.surroundings, given.pattern)
        self._approved.note(context.call_id, begin.place)
        return await read_in_thread(search_root.may_search, self.name, begin, context.surroundings)

    async def run(self, given: GlobInput, context: ToolContext) -> Ran[GlobOutput] | Failure:
        started, most = time.monotonic(), context.surroundings.most_files
        begin = await read_in_thread(search_root.start, given.path, context.surroundings, given.pattern)
        if self._approved.moved(context.call_id, begin.place):
            return search_root.moved(begin)
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


@dataclass(slots=True)
class _Found:
    newest: list[tuple[int, str]]
    """When they were changed, and their names."""
    out_of_time: bool
    ignore_files: list[str]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.newest]


def _flaw(given: GlobInput, surroundings: Surroundings) -> Failure | None:
    try:
        matcher(given.pattern)
    except BadPattern as error:
        return Failure(str(error))
    return _no_folder(given, surroundings)


def _no_folder(given: GlobInput, surroundings: Surroundings) -> Failure | None:
    flaw = search_root.missing(given.path, surroundings)
    begin = search_root.start(given.path, surroundings)
    if flaw is None and begin.base != begin.place:
        return Failure(f"{begin.written} is a file, not a folder to look in.")
    return flaw or search_root.closed(search_root.start(given.path, surroundings, given.pattern))


async def _find(given: GlobInput, begin: Start, most: int) -> _Found:
    """With the ignored files that the pattern names: a second look, which only those cost who name one."""
    rules = ignore_files.WITHOUT_RULES_ABOVE if await read_in_thread(ignore_files.hides, begin.base) else ()
    options = ["--files", *rules, *ripgrep.exclusions(begin.place, begin.home, given.pattern), "--", begin.place]
    found = await ripgrep.search(options, lambda search: _newest(search, begin, most, None))
    named = await read_in_thread(_named, begin, found)
    if not named and found.newest:
        return found
    if not named and not spelled_out(given.pattern):
        return found
    # Where nothing else is found, what lies in an ignored folder is meant even if only its own name is said.
    only = named if found.newest else None
    more = await ripgrep.search(["--no-ignore", *options], lambda search: _newest(search, begin, most, only))
    newest = nlargest(most + 1, {*found.newest, *more.newest})
    return _Found(newest, found.out_of_time or more.out_of_time, [])


def _named(begin: Start, found: _Found) -> frozenset[str]:
    """The names in the pattern that some rule ignores."""
    names = spelled_out(begin.pattern)
    return ignore_files.named_by_rules(names, begin.base, found.ignore_files) if names else names


def _newest(search: Search, begin: Start, most: int, named: frozenset[str] | None) -> _Found:
    """`named`: only files with such a name, or in such a folder."""
    matches = matcher(begin.pattern)
    found = _Found([], False, [])
    files = _dated(search, begin, matches, found.ignore_files if spelled_out(begin.pattern) else None)
    if named is not None:
        files = ((when, name) for when, name in files if not named.isdisjoint(begin.relative(name).split("/")))
    # One more than is shown tells that there are more.
    found.newest = nlargest(most + 1, files)
    found.out_of_time = search.out_of_time
    return found


def _dated(
    search: Search, begin: Start, matches: Callable[[str], bool], ignoring: list[str] | None
) -> Iterator[tuple[int, str]]:
    inside = len(begin.base.rstrip("/")) + 1
    all_visible = begin.may_read is None
    for record in search.records(b"\0"):
        name = record.decode("utf-8", "surrogateescape")
        if ignoring is not None and name.endswith(ignore_files.FILES):
            ignoring.append(name)
        if matches(name[inside:]) and (all_visible or begin.visible(name)):
            try:
                yield os.lstat(name).st_mtime_ns, name
            except OSError:
                continue  # It went away meanwhile.
