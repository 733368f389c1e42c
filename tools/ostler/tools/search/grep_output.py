"""Parses ripgrep's output while it runs, and collects the lines or files that are shown."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from ostler.protocol.patterns import compile_later
from ostler.tools.search.ripgrep import Search

MAX_CHARS: Final = 500
"""How many characters of a line are shown."""
_MAX_LINES: Final = 50_000
"""The limit where none was requested."""
_MAX_FILES: Final = 200_000
_YIELD_EVERY: Final = 5_000
"""Lines after which the interpreter's lock is released."""
_LINE: Final = compile_later(rb"(\d+)([:-])(.*)", re.DOTALL)
_BINARY: Final = compile_later(
    rb"(.+): (binary file matches|WARNING: stopped searching binary file after match) \(found .*\)", re.DOTALL
)
"""Printed for a binary file that was named, or that turned out to be binary only after some lines."""

NameFilter: TypeAlias = Callable[[str], bool]


class Origin(Protocol):
    """Where the search began: how file names that ripgrep prints are shown, and whether they may be."""

    def make_relative(self, name: str) -> str: ...
    def format_name(self, name: str) -> str: ...
    def is_visible(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class OutputSelection:
    """Which part of the output is shown."""

    mode: str
    origin: Origin
    line_numbers: bool
    context: bool
    """Context lines of matches are shown, too: groups of them are separated."""
    limit: int
    offset: int
    name_filter: NameFilter | None

    def accepts(self, name: str) -> bool:
        return self.origin.is_visible(name) and (
            self.name_filter is None or self.name_filter(self.origin.make_relative(name))
        )


class _Line(NamedTuple):
    """A line of output."""

    text: str
    name: str
    """Name of its file."""
    matches: int
    """How many matches it counts for."""
    number: int | None = None
    """Line number; null for a count, and for a note about the file."""


@dataclass(slots=True)
class GrepMatches:
    """What was collected for the result."""

    lines: list[str] = field(default_factory=list)
    filenames: list[str] = field(default_factory=list)
    matches: int = 0
    taken: int = 0
    cut: bool = False
    out_of_time: bool = False


def collect(search: Search, wanted: OutputSelection) -> GrepMatches:
    """Reads the output until there is enough. Blocks."""
    found = (
        _collect_files(search, wanted)
        if wanted.mode == "files_with_matches"
        else _LineCollector(wanted).collect(search)
    )
    found.out_of_time = search.out_of_time
    return found


def _collect_files(search: Search, wanted: OutputSelection) -> GrepMatches:
    """Collects files, the newest first, for which all must be read; ripgrep stops at the first match in each file."""
    names = (os.fsdecode(record) for record in search.read_records(b"\0"))
    accepted = list(islice((name for name in names if wanted.accepts(name)), _MAX_FILES))
    accepted.sort(key=lambda name: (-_get_mtime(name), name))
    end = wanted.offset + (wanted.limit or _MAX_LINES)
    shown = [wanted.origin.format_name(name) for name in accepted[wanted.offset : end]]
    return GrepMatches(filenames=shown, matches=len(shown), taken=len(shown), cut=len(accepted) > end)


def _get_mtime(name: str) -> int:
    try:
        return os.lstat(name).st_mtime_ns
    except OSError:
        return 0


def _cut_line(line: str) -> str:
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]} [... omitted end of long line]"


class _LineCollector:
    """Collects lines of content, or counts: `NAME NUL NUMBER : TEXT`, with `-` for `:` in a context line."""

    def __init__(self, wanted: OutputSelection) -> None:
        self._wanted = wanted
        self._found = GrepMatches()
        self._names: dict[bytes, str | None] = {}
        """Names by their raw bytes, as they are shown; null for files that are left out."""
        self._shown_names: dict[str, None] = {}
        self._name_so_far = b""
        """The beginning of a file name that contains line ends."""
        self._seen = 0
        self._same_file = b"\0"
        """The prefix of a further line of the last file."""
        self._same_is_wanted = False
        self._last: _Line | None = None
        """The last line that was collected."""

    def collect(self, search: Search) -> GrepMatches:
        for number, record in enumerate(search.read_records(b"\n")):
            if number % _YIELD_EVERY == 0:
                time.sleep(0)
            if self._skip_record(record):
                continue
            line = self._parse_line(record)
            if line is not None and not self._take_line(line):
                self._found.cut = True
                break
        self._found.filenames = list(self._shown_names)
        return self._found

    def _skip_record(self, record: bytes) -> bool:
        """Skips a line of the same file that is not shown, of which there may be millions; returns whether it did."""
        if self._name_so_far or not record.startswith(self._same_file):
            return False
        if not self._same_is_wanted:
            return True
        if self._seen >= self._wanted.offset:
            return False
        self._seen += 1
        return True

    def _take_line(self, line: _Line) -> bool:
        """Adds a line; returns False where the limit is reached."""
        self._seen += 1
        if self._seen <= self._wanted.offset:
            return True
        if self._found.taken >= (self._wanted.limit or _MAX_LINES):
            return False
        if self._begins_a_group(line):
            self._found.lines.append("--")
        self._last = line
        self._found.taken += 1
        self._found.lines.append(line.text)
        self._found.matches += line.matches
        self._shown_names[line.name] = None
        return True

    def _begins_a_group(self, line: _Line) -> bool:
        """Whether a separator is needed; ripgrep's own would ignore the lines that are left out here."""
        last = self._last
        if not self._wanted.context or last is None or line.number is None or last.number is None:
            return False
        return line.name != last.name or line.number != last.number + 1

    def _parse_line(self, record: bytes) -> _Line | None:
        raw, zero, rest = (self._name_so_far + record).partition(b"\0")
        if not zero:
            return self._parse_without_line(raw)
        self._name_so_far = b""
        name = self._resolve_name(raw)
        self._same_file, self._same_is_wanted = raw + zero, name is not None
        if name is None:
            return None
        if self._wanted.mode == "count":
            count = int(rest)  # with --crlf it ends in a carriage return
            return _Line(f"{name}:{count}", name, count)
        match = _LINE.fullmatch(rest)
        if match is None:
            return None
        mark = match[2].decode()
        text = _cut_line(match[3].removesuffix(b"\r").decode("utf-8", "replace"))
        number = f"{match[1].decode()}{mark}" if self._wanted.line_numbers else ""
        return _Line(f"{name}{mark}{number}{text}", name, int(mark == ":"), int(match[1]))

    def _parse_without_line(self, record: bytes) -> _Line | None:
        binary = _BINARY.fullmatch(record.removesuffix(b"\r"))
        if binary is None:
            # Every line has its file name: this is the beginning of a name that continues in the next record.
            self._name_so_far = record + b"\n"
            return None
        self._name_so_far = b""
        name = self._resolve_name(binary[1])
        matches = int(binary[2] == b"binary file matches")
        return None if name is None else _Line(f"{name}: a binary file, of which no more is shown", name, matches)

    def _resolve_name(self, raw: bytes) -> str | None:
        if raw not in self._names:
            full = os.fsdecode(raw)
            self._names[raw] = self._wanted.origin.format_name(full) if self._wanted.accepts(full) else None
        return self._names[raw]
