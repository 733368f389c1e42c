"""The files that a command visibly reads or writes."""

import glob
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from ostler.tools.commands.safety.program_table import Refused, data, frozen, programs
from ostler.tools.commands.safety.read_only import judged_by_words
from ostler.tools.commands.safety.wrappers import all_inside
from ostler.tools.commands.syntax.parsed import Folders, Part, Reading
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import resolved

_MAX_MATCHES: Final = 1000
_GLOB_BEGINS: Final = re.compile(r"[*?\[]")

Which = Literal["all", "last", "but_last", "none"]


@dataclass(frozen=True, slots=True)
class Touched:
    """One path, absolute but not resolved."""

    path: str
    writes: bool
    deep: bool = False
    """Everything below it as well."""


@dataclass(frozen=True, slots=True)
class FileProgram:
    """One entry of files.toml."""

    reads: Which = "none"
    writes: Which = "none"
    skips: int = 0
    unless: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    writes_to: tuple[str, ...] = ()
    simple: tuple[str, ...] = ()


_READS_ALL: Final = FileProgram(reads="all")


@cache
def file_programs() -> dict[str, FileProgram]:
    """Programs that read or write the files that their operands name."""
    return {name: FileProgram(**_frozen(entry)) for name, entry in data("files.toml").items()}


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: frozen(value) for key, value in entry.items()}


@dataclass(frozen=True, slots=True)
class _Named:
    """Something that a part reads or writes, as it is written."""

    word: Word | None
    """None: the folder that it runs in."""
    folders: Folders
    writes: bool
    deep: bool = False

    @property
    def is_a_path(self) -> bool:
        return self.word is not None and self.word.kind != "unknown" and self.word.text not in {"", "-"}


def touched(reading: Reading, folder: str) -> tuple[Touched, ...]:
    """The files that a command visibly reads or writes, run in a folder; what runs inside wrappers included.

    A path whose folder is not known is taken from where the command starts.
    """
    found = (each for inner in all_inside(reading) for named in _by_part(inner) for each in _paths(named, folder))
    return tuple(dict.fromkeys(found))


def touched_unnamed(reading: Reading, folder: str) -> tuple[Touched, ...] | None:
    """The same without a look at the file system; None where a file is named."""
    found = [named for inner in all_inside(reading) for named in _by_part(inner)]
    if any(named.is_a_path for named in found):
        return None
    return tuple(dict.fromkeys(each for named in found for each in _paths(named, folder)))


def _by_part(part: Part) -> Iterator[_Named]:
    for redirection in part.redirections:
        if redirection.writes or redirection.reads:
            yield _Named(redirection.target, redirection.folders, redirection.writes)
    if not part.tokens:
        return
    try:
        # By its words: redirections, and what else would make it refused, are no matter here.
        harmless = judged_by_words(part)
    except Refused:
        yield from _by_operands(part)
        return
    for word in harmless.files:
        yield _Named(word, part.folders, writes=False, deep=harmless.deep)
    if harmless.folder:
        yield _Named(None, part.folders, writes=False, deep=harmless.deep)


def _by_operands(part: Part) -> Iterator[_Named]:
    name = part.words[0] or ""
    if name == "dd":
        for named in part.literal_words or ():
            key, _, value = named.partition("=")
            if key in {"if", "of"}:
                yield _Named(Word(value, value, "literal"), part.folders, writes=key == "of")
        return
    program = file_programs().get(name) or (_READS_ALL if name in programs() else None)
    if program is None:
        return
    operands, written, options = _sorted(program, part.tokens[1:])
    if not any(option in program.unless for option in options):
        operands = operands[program.skips :]
    in_place = name == "sed" and any(option[:2] == "-i" or option == "--in-place" for option in options)
    target_given = bool(written) and program.writes == "last"
    for place, word in enumerate(operands):
        last = place == len(operands) - 1 and len(operands) > 1 and not target_given
        writes = in_place or program.writes == "all" or (program.writes == "last" and last)
        if writes or program.reads != "none":
            yield _Named(word, part.folders, writes)
    for word in written:
        yield _Named(word, part.folders, writes=True)


def _sorted(program: FileProgram, tokens: Sequence[Word]) -> tuple[list[Word], list[Word], list[str]]:
    """Operands, files named by options that write, and the options."""
    operands, written, options = list[Word](), list[Word](), list[str]()
    waiting = list(tokens)[::-1]
    only_operands = False
    while waiting:
        token = waiting.pop()
        text = token.text
        if only_operands or token.kind != "literal" or not text.startswith("-") or text == "-":
            operands.append(token)
            continue
        only_operands = text == "--"
        name, equals, value = text.partition("=")
        options.append(name)
        if equals and name.startswith("--"):
            # Better one path too many than one too few.
            (written if name in program.writes_to else operands).append(Word(value, value, "literal"))
        elif (option := _takes_next(text, program.writes_to)) and waiting:
            written.append(waiting.pop())
        elif (option := _takes_next(text, program.values)) and waiting:
            options.append(option)
            waiting.pop()
        elif attached := next((text[2:] for option in program.writes_to if text[:2] == option and text[2:]), ""):
            written.append(Word(attached, attached, "literal"))
    return operands, written, options


def _takes_next(text: str, names: Sequence[str]) -> str:
    """The option, alone or last in a bundle, whose value is the next word."""
    if text in names:
        return text
    last = f"-{text[-1]}"
    return last if not text.startswith("--") and last in names else ""


def _paths(named: _Named, start: str) -> Iterator[Touched]:
    word, writes, deep = named.word, named.writes, named.deep
    if word is None:
        for place in _starts(named.folders, start):
            yield Touched(place, writes, deep)
        return
    if not named.is_a_path:
        return
    if word.kind == "home":
        yield Touched(os.path.expanduser(word.text), writes, deep)
        return
    for place in _starts(named.folders, start):
        path = posixpath.join(place, word.text)
        if word.kind == "glob":
            yield from _matches(path, place, writes=writes, deep=deep)
        else:
            yield Touched(path, writes, deep)


def _matches(pattern: str, place: str, *, writes: bool, deep: bool) -> Iterator[Touched]:
    """The folder that the pattern looks into, and what it finds there now."""
    fixed = posixpath.dirname(_GLOB_BEGINS.split(pattern[len(place) :], maxsplit=1)[0])
    yield Touched(posixpath.join(place, fixed.lstrip("/")) if fixed else place, writes, deep=True)
    for path in itertools.islice(glob.iglob(pattern), _MAX_MATCHES):
        yield Touched(path, writes, deep)


def _starts(folders: Folders, start: str) -> list[str]:
    return [start] if folders is None else [resolved(start, folder) for folder in folders]
