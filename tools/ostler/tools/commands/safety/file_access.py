"""Finds the files that a command visibly reads or writes."""

import glob
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from ostler.tools.commands.safety.program_table import NotReadOnly, freeze, load_programs, load_toml
from ostler.tools.commands.safety.read_only import check_words
from ostler.tools.commands.safety.wrappers import unwrap_all
from ostler.tools.commands.syntax.parsed import Folders, ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_MAX_MATCHES: Final = 1000
_GLOB_BEGINS: Final = re.compile(r"[*?\[]")

OperandChoice = Literal["all", "last", "but_last", "none"]


@dataclass(frozen=True, slots=True)
class FileAccess:
    """One path, absolute but not resolved."""

    path: str
    writes: bool
    deep: bool = False
    """Everything below it as well."""


@dataclass(frozen=True, slots=True)
class FileProgram:
    """One entry of files.toml."""

    reads: OperandChoice = "none"
    writes: OperandChoice = "none"
    skips: int = 0
    unless: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    writes_to: tuple[str, ...] = ()
    simple: tuple[str, ...] = ()


_READS_ALL: Final = FileProgram(reads="all")


@cache
def load_file_programs() -> dict[str, FileProgram]:
    """Programs that read or write the files that their operands name."""
    return {name: FileProgram(**_freeze_entry(entry)) for name, entry in load_toml("files.toml").items()}


def _freeze_entry(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: freeze(value) for key, value in entry.items()}


@dataclass(frozen=True, slots=True)
class _AccessTarget:
    """A word of a simple command that names what it reads or writes."""

    word: Word | None
    """None: the folder that it runs in."""
    folders: Folders
    writes: bool
    deep: bool = False

    @property
    def is_a_path(self) -> bool:
        return self.word is not None and self.word.kind != "unknown" and self.word.text not in {"", "-"}


def find_file_accesses(parsed: ParsedCommand, folder: str) -> tuple[FileAccess, ...]:
    """The files that a command visibly reads or writes, run in a folder; what runs inside wrappers included.

    A path whose folder is not known is taken from where the command starts.
    """
    found = (
        each
        for inner in unwrap_all(parsed)
        for named in _find_targets(inner)
        for each in _resolve_target(named, folder)
    )
    return tuple(dict.fromkeys(found))


def find_unnamed_accesses(parsed: ParsedCommand, folder: str) -> tuple[FileAccess, ...] | None:
    """The same without access to the file system; None where a file is named."""
    found = [named for inner in unwrap_all(parsed) for named in _find_targets(inner)]
    if any(named.is_a_path for named in found):
        return None
    return tuple(dict.fromkeys(each for named in found for each in _resolve_target(named, folder)))


def _find_targets(part: SimpleCommand) -> Iterator[_AccessTarget]:
    for redirection in part.redirections:
        if redirection.writes or redirection.reads:
            yield _AccessTarget(redirection.target, redirection.folders, redirection.writes)
    if not part.tokens:
        return
    try:
        # By its words alone: redirections and assignments, which would refuse it, do not matter here.
        access = check_words(part)
    except NotReadOnly:
        yield from _find_operand_targets(part)
        return
    for word in access.files:
        yield _AccessTarget(word, part.folders, writes=False, deep=access.deep)
    if access.folder:
        yield _AccessTarget(None, part.folders, writes=False, deep=access.deep)


def _find_operand_targets(part: SimpleCommand) -> Iterator[_AccessTarget]:
    name = part.words[0] or ""
    if name == "dd":
        for named in part.literal_words or ():
            key, _, value = named.partition("=")
            if key in {"if", "of"}:
                yield _AccessTarget(Word(value, value, "literal"), part.folders, writes=key == "of")
        return
    program = load_file_programs().get(name) or (_READS_ALL if name in load_programs() else None)
    if program is None:
        return
    operands, written, options = _sort_arguments(program, part.tokens[1:])
    if not any(option in program.unless for option in options):
        operands = operands[program.skips :]
    in_place = name == "sed" and any(option[:2] == "-i" or option == "--in-place" for option in options)
    target_given = bool(written) and program.writes == "last"
    for place, word in enumerate(operands):
        last = place == len(operands) - 1 and len(operands) > 1 and not target_given
        writes = in_place or program.writes == "all" or (program.writes == "last" and last)
        if writes or program.reads != "none":
            yield _AccessTarget(word, part.folders, writes)
    for word in written:
        yield _AccessTarget(word, part.folders, writes=True)


def _sort_arguments(program: FileProgram, tokens: Sequence[Word]) -> tuple[list[Word], list[Word], list[str]]:
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
        elif (option := _find_value_option(text, program.writes_to)) and waiting:
            written.append(waiting.pop())
        elif (option := _find_value_option(text, program.values)) and waiting:
            options.append(option)
            waiting.pop()
        elif attached := next((text[2:] for option in program.writes_to if text[:2] == option and text[2:]), ""):
            written.append(Word(attached, attached, "literal"))
    return operands, written, options


def _find_value_option(text: str, names: Sequence[str]) -> str:
    """The option, alone or last in a bundle, whose value is the next word."""
    if text in names:
        return text
    last = f"-{text[-1]}"
    return last if not text.startswith("--") and last in names else ""


def _resolve_target(named: _AccessTarget, start: str) -> Iterator[FileAccess]:
    word, writes, deep = named.word, named.writes, named.deep
    if word is None:
        for place in _resolve_folders(named.folders, start):
            yield FileAccess(place, writes, deep)
        return
    if not named.is_a_path:
        return
    if word.kind == "home":
        yield FileAccess(os.path.expanduser(word.text), writes, deep)
        return
    for place in _resolve_folders(named.folders, start):
        path = posixpath.join(place, word.text)
        if word.kind == "glob":
            yield from _expand_glob(path, place, writes=writes, deep=deep)
        else:
            yield FileAccess(path, writes, deep)


def _expand_glob(pattern: str, place: str, *, writes: bool, deep: bool) -> Iterator[FileAccess]:
    """The folder that the pattern searches, and the files that match now."""
    fixed = posixpath.dirname(_GLOB_BEGINS.split(pattern[len(place) :], maxsplit=1)[0])
    yield FileAccess(posixpath.join(place, fixed.lstrip("/")) if fixed else place, writes, deep=True)
    for path in itertools.islice(glob.iglob(pattern), _MAX_MATCHES):
        yield FileAccess(path, writes, deep)


def _resolve_folders(folders: Folders, start: str) -> list[str]:
    return [start] if folders is None else [resolve_folder(start, folder) for folder in folders]
