"""Glob: finds files by name, the newest first."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.fs import paths
from ostler.tools.fs.paths import ApprovedPaths
from ostler.tools.permissions.subject import Subject
from ostler.tools.search import ignore_files, ripgrep, search_root
from ostler.tools.search.glob_pattern import BadPattern, compile_pattern, list_literal_names
from ostler.tools.search.ripgrep import Search
from ostler.tools.search.search_root import SearchRoot
from ostler.tools.search.stored_text import parse_result_path
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits


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


async def _find_subject(given: GlobInput, session: SessionView) -> Subject:
    return await read_in_thread(search_root.build_subject, given.path, session, given.pattern)


class Glob(Tool[GlobInput, GlobOutput]):
    """Finds files by the pattern of their names."""

    name = "Glob"
    Input = GlobInput
    Output = GlobOutput
    title = "Finds files by name"
    given_to_agents = "all"
    search_hint = "find list files names pattern wildcard"
    max_result_chars = 30_000
    only_reads = True
    permissions = PermissionTraits(path="path", subject=_find_subject)

    def __init__(self) -> None:
        self._approved = ApprovedPaths()

    def activity(self, given: GlobInput) -> Activity:
        return "list"

    def description(self, session: SessionView) -> str:
        return super().description(session).replace("{most}", str(session.config.tools.glob_files), 1)

    def is_concurrency_safe(self, given: GlobInput) -> bool:
        return True

    def summary(self, given: GlobInput) -> str:
        return f"Glob {given.pattern[:200]}" + (f" in {paths.shorten_path(given.path)}" if given.path else "")

    async def validate(self, given: GlobInput, context: ToolContext) -> Failure | None:
        failure = search_root.check_texts(given.pattern, given.path)
        failure = failure or search_root.check_length(given.path, context.session)
        if failure is not None:
            return failure
        if parse_result_path(given.path) is not None:
            return Failure(f"{given.path} is a persisted result: read it with Read, or search it with Grep.")
        if not given.pattern:
            return Failure("The pattern is empty: `**` finds every file.")
        if ".." in given.pattern.split("/"):
            return Failure("The pattern cannot lead upwards with `..`: give the folder as path.")
        return await read_in_thread(_check_input, given, context.session)

    async def check_permission(self, given: GlobInput, context: ToolContext) -> Check:
        root = await read_in_thread(search_root.resolve_root, given.path, context.session, given.pattern)
        self._approved.note(context.call_id, root.place)
        return await read_in_thread(search_root.may_search, self.name, root, context.session)

    async def run(self, given: GlobInput, context: ToolContext) -> ToolResult[GlobOutput] | Failure:
        started, most = time.monotonic(), context.session.config.tools.glob_files
        root = await read_in_thread(search_root.resolve_root, given.path, context.session, given.pattern)
        if self._approved.has_moved(context.call_id, root.place):
            return search_root.fail_moved(root)
        try:
            found = await _find_files(given, root, most)
        except (ripgrep.RipgrepError, ripgrep.RipgrepMissing) as error:
            return Failure(str(error))
        output = GlobOutput(
            filenames=[root.format_name(name) for name in found.names[:most]],
            num_files=min(len(found.names), most),
            truncated=len(found.names) > most,
            timed_out=found.out_of_time,
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        return ToolResult(output)

    def render(self, output: GlobOutput) -> list[Block]:
        lines = list(output.filenames) or ["No files found"]
        if output.truncated:
            lines.append(f"(only the {output.num_files} newest are shown; a narrower pattern or path finds the others)")
        if output.timed_out:
            lines.append(ripgrep.STOPPED_NOTE)
        return [text_block("\n".join(lines))]


@dataclass(slots=True)
class _FoundFiles:
    newest: list[tuple[int, str]]
    """Modification times and names."""
    out_of_time: bool
    ignore_files: list[str]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.newest]


def _check_input(given: GlobInput, session: SessionView) -> Failure | None:
    try:
        compile_pattern(given.pattern)
    except BadPattern as error:
        return Failure(str(error))
    return _check_folder(given, session)


def _check_folder(given: GlobInput, session: SessionView) -> Failure | None:
    failure = search_root.check_exists(given.path, session)
    root = search_root.resolve_root(given.path, session)
    if failure is None and root.base != root.place:
        return Failure(f"{root.written} is a file, not a folder to look in.")
    return failure or search_root.check_readable(search_root.resolve_root(given.path, session, given.pattern))


async def _find_files(given: GlobInput, root: SearchRoot, most: int) -> _FoundFiles:
    """Finds files, with the ignored ones that the pattern names: only where it names one, there is a second search."""
    rules = ignore_files.WITHOUT_RULES_ABOVE if await read_in_thread(ignore_files.is_hidden, root.base) else ()
    options = ["--files", *rules, *ripgrep.build_exclusions(root.place, root.home, given.pattern), "--", root.place]
    found = await ripgrep.search(options, lambda search: _collect_newest(search, root, most, None))
    named = await read_in_thread(_find_ignored_names, root, found)
    if not named and found.newest:
        return found
    if not named and not list_literal_names(given.pattern):
        return found
    # Where nothing else is found, files in ignored folders are meant, even if the pattern names only the file.
    only = named if found.newest else None
    more = await ripgrep.search(["--no-ignore", *options], lambda search: _collect_newest(search, root, most, only))
    newest = nlargest(most + 1, {*found.newest, *more.newest})
    return _FoundFiles(newest, found.out_of_time or more.out_of_time, [])


def _find_ignored_names(root: SearchRoot, found: _FoundFiles) -> frozenset[str]:
    """The names in the pattern that a rule of an ignore file matches."""
    names = list_literal_names(root.pattern)
    return ignore_files.match_names(names, root.base, found.ignore_files) if names else names


def _collect_newest(search: Search, root: SearchRoot, most: int, named: frozenset[str] | None) -> _FoundFiles:
    """`named`: only files with such a name, or in such a folder."""
    matches = compile_pattern(root.pattern)
    found = _FoundFiles([], False, [])
    files = _read_dated(search, root, matches, found.ignore_files if list_literal_names(root.pattern) else None)
    if named is not None:
        files = ((when, name) for when, name in files if not named.isdisjoint(root.make_relative(name).split("/")))
    # One more than is shown, to know whether there are more.
    found.newest = nlargest(most + 1, files)
    found.out_of_time = search.out_of_time
    return found


def _read_dated(
    search: Search, root: SearchRoot, matches: Callable[[str], bool], ignoring: list[str] | None
) -> Iterator[tuple[int, str]]:
    inside = len(root.base.rstrip("/")) + 1
    all_visible = root.may_read is None
    for record in search.read_records(b"\0"):
        name = record.decode("utf-8", "surrogateescape")
        if ignoring is not None and name.endswith(ignore_files.FILES):
            ignoring.append(name)
        if matches(name[inside:]) and (all_visible or root.is_visible(name)):
            try:
                yield os.lstat(name).st_mtime_ns, name
            except OSError:
                continue  # It went away meanwhile.
