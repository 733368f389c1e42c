"""What ripgrep prints, read while it runs, and turned into what is shown."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from ostler.tools.search.ripgrep import Search

MAX_CHARS: Final = 500
"""Of a line that are shown."""
_MAX_LINES: Final = 50_000
"""Where no limit was asked for."""
_MAX_FILES: Final = 200_000
_AT_A_STRETCH: Final = 5_000
"""Lines after which others get the interpreter's lock."""
_LINE: Final = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_BINARY: Final = re.compile(
    rb"(.+): (binary file matches|WARNING: stopped searching binary file after match) \(found .*\)", re.DOTALL
)
"""Said of a file that was named, or that turned out to be binary only after some lines."""

NameFilter: TypeAlias = Callable[[str], bool]


class Origin(Protocol):
    """Where was searched: how names are called that ripgrep prints."""

    def relative(self, name: str) -> str: ...
    def found(self, name: str) -> str: ...
    def visible(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be kept of the output."""

    mode: str
    begin: Origin
    line_numbers: bool
    context: bool
    """Lines beside a match are shown, too: groups of them are kept apart."""
    limit: int
    offset: int
    matches: NameFilter | None

    def accepts(self, name: str) -> bool:
        return self.begin.visible(name) and (self.matches is None or self.matches(self.begin.relative(name)))


class _Line(NamedTuple):
    """One that may be shown."""

    text: str
    name: str
    """Of its file."""
    matches: int
    """How many it stands for."""
    number: int | None = None
    """Its own; null for a count, and for words about the file."""


@dataclass(slots=True)
class Collected:
    """What was kept."""

    lines: list[str] = field(default_factory=list)
    filenames: list[str] = field(default_factory=list)
    matches: int = 0
    taken: int = 0
    cut: bool = False
    out_of_time: bool = False


def collect(search: Search, wanted: Wanted) -> Collected:
    """Blocks until there is enough."""
    found = _files(search, wanted) if wanted.mode == "files_with_matches" else _Lines(wanted).collect(search)
    found.out_of_time = search.out_of_time
    return found


def _files(search: Search, wanted: Wanted) -> Collected:
    """The newest first, for which all must be known; ripgrep leaves each file at its first match."""
    names = (os.fsdecode(record) for record in search.records(b"\0"))
    accepted = list(islice((name for name in names if wanted.accepts(name)), _MAX_FILES))
    accepted.sort(key=lambda name: (-_changed(name), name))
    end = wanted.offset + (wanted.limit or _MAX_LINES)
    shown = [wanted.begin.found(name) for name in accepted[wanted.offset : end]]
    return Collected(filenames=shown, matches=len(shown), taken=len(shown), cut=len(accepted) > end)


def _changed(name: str) -> int:
    try:
        return os.lstat(name).st_mtime_ns
    except OSError:
        return 0


def _cut(line: str) -> str:
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]} [... omitted end of long line]"


class _Lines:
    """Lines of content, or counts: `NAME NUL NUMBER : TEXT`, or `-` for `:` where the line stands beside a match."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._found = Collected()
        self._names: dict[bytes, str | None] = {}
        """As they are shown; null for those that are not wanted."""
        self._shown_names: dict[str, None] = {}
        self._name_so_far = b""
        """Of a file whose name has line ends in it."""
        self._seen = 0
        self._same_file = b"\0"
        """How a further line of the last file begins."""
        self._same_is_wanted = False
        self._last: _Line | None = None
        """The last one that was kept."""

    def collect(self, search: Search) -> Collected:
        for number, record in enumerate(search.records(b"\n")):
            if number % _AT_A_STRETCH == 0:
                time.sleep(0)
            if self._passed_over(record):
                continue
            line = self._line(record)
            if line is not None and not self._take(line):
                self._found.cut = True
                break
        self._found.filenames = list(self._shown_names)
        return self._found

    def _passed_over(self, record: bytes) -> bool:
        """Whether it is a line of the same file that is not shown: there may be millions, which are only counted."""
        if self._name_so_far or not record.startswith(self._same_file):
            return False
        if not self._same_is_wanted:
            return True
        if self._seen >= self._wanted.offset:
            return False
        self._seen += 1
        return True

    def _take(self, line: _Line) -> bool:
        """False where it is one too many."""
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
        """As ripgrep would say; but it knows nothing of lines that are left out."""
        last = self._last
        if not self._wanted.context or last is None or line.number is None or last.number is None:
            return False
        return line.name != last.name or line.number != last.number + 1

    def _line(self, record: bytes) -> _Line | None:
        raw, zero, rest = (self._name_so_far + record).partition(b"\0")
        if not zero:
            return self._without_a_line(raw)
        self._name_so_far = b""
        name = self._name(raw)
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
        text = _cut(match[3].removesuffix(b"\r").decode("utf-8", "replace"))
        number = f"{match[1].decode()}{mark}" if self._wanted.line_numbers else ""
        return _Line(f"{name}{mark}{number}{text}", name, int(mark == ":"), int(match[1]))

    def _without_a_line(self, record: bytes) -> _Line | None:
        binary = _BINARY.fullmatch(record.removesuffix(b"\r"))
        if binary is None:
            # Every line is told with its file: this is the beginning of a name that goes on in the next record.
            self._name_so_far = record + b"\n"
            return None
        self._name_so_far = b""
        name = self._name(binary[1])
        matches = int(binary[2] == b"binary file matches")
        return None if name is None else _Line(f"{name}: a binary file, of which no more is shown", name, matches)

    def _name(self, raw: bytes) -> str | None:
        if raw not in self._names:
            full = os.fsdecode(raw)
            self._names[raw] = self._wanted.begin.found(full) if self._wanted.accepts(full) else None
        return self._names[raw]
