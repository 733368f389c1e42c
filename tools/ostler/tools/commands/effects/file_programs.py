"""The table of programs that read or write the files which their arguments name; parses arguments by it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, Literal

from ostler.tools.commands.effects.file_targets import FileAction
from ostler.tools.commands.safety.program_table import freeze, load_toml
from ostler.tools.commands.syntax.words import Word

OperandChoice = Literal["all", "last", "but_last", "none"]
_MAY_BECOME_OPTION: Final = frozenset("*?[-")


@dataclass(frozen=True)
class FileProgram:
    """One entry; the words are explained at the top of files.toml."""

    reads: OperandChoice = "none"
    writes: OperandChoice = "none"
    action: FileAction = "write"
    transfer: Literal["copy", "move", "link"] | None = None
    skips: int = 0
    unless: tuple[str, ...] = ()
    short: str = ""
    long: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    reads_from: tuple[str, ...] = ()
    writes_to: tuple[str, ...] = ()
    folder_options: tuple[str, ...] = ()
    name_options: tuple[str, ...] = ()
    deep_options: tuple[str, ...] = ()
    deep: bool = False
    in_place: tuple[str, ...] = ()
    keeps_path: tuple[str, ...] = ()
    unknown_options: tuple[str, ...] = ()
    derives: tuple[str, ...] = ()
    follow_options: tuple[str, ...] = ()
    link_options: tuple[str, ...] = ()
    move_options: tuple[str, ...] = ()
    delete_options: tuple[str, ...] = ()
    backup_options: tuple[str, ...] = ()
    unsure_options: tuple[str, ...] = ()
    makes_folders: tuple[str, ...] = ()
    copies_inside: bool = False
    remote: bool = False
    code: bool = False
    script: bool = False
    loose: bool = False
    simple: tuple[str, ...] = ()

    @cached_property
    def with_value(self) -> frozenset[str]:
        """The options that take a value, attached or as the next word."""
        return frozenset((*self.values, *self.reads_from, *self.writes_to, *self.folder_options))

    @cached_property
    def without_value(self) -> frozenset[str]:
        letters = (f"-{letter}" for letter in self.short)
        names = (f"--{name}" for name in self.long)
        listed = (*self.name_options, *self.deep_options, *self.keeps_path, *self.unknown_options)
        return frozenset((*letters, *names, *listed)) - self.with_value

    @cached_property
    def long_names(self) -> tuple[str, ...]:
        known = (*self.with_value, *self.without_value, *self.optional)
        return tuple(sorted(name for name in known if name.startswith("--")))


@cache
def load_file_programs() -> dict[str, FileProgram]:
    """Programs that read or write the files that their arguments name, by name."""
    entries = load_toml("files.toml", "effects")
    return {name: FileProgram(**_freeze_entry(entries, entry)) for name, entry in entries.items()}


def _freeze_entry(entries: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    merged = {**entries[entry["like"]], **entry} if "like" in entry else entry
    return {key: freeze(value) for key, value in merged.items() if key != "like"}


@dataclass(slots=True)
class FileArguments:
    """A program's arguments, sorted by what they are."""

    operands: list[Word] = field(default_factory=list)
    options: list[tuple[str, Word | None]] = field(default_factory=list)
    """Each option, long names written out, and its value."""
    unknown: str | None = None
    """The word after which it is not known which are operands."""

    def has(self, names: Iterable[str]) -> bool:
        wanted = frozenset(names)
        return any(name in wanted for name, _ in self.options)

    def list_values(self, names: Iterable[str]) -> list[Word]:
        wanted = frozenset(names)
        return [value for name, value in self.options if name in wanted and value is not None]


def parse_file_arguments(program: FileProgram, tokens: Sequence[Word]) -> FileArguments:
    """Sorts the arguments as getopt does. Never raises: what is not understood is said in `unknown`."""
    found = FileArguments()
    waiting = list(tokens)[::-1]
    only_operands = False
    while waiting:
        token = waiting.pop()
        text = token.text
        if not only_operands and _may_be_option(token):
            found.unknown = found.unknown or token.source
        if only_operands or token.kind != "literal" or not text.startswith("-") or text == "-":
            found.operands.append(token)
        elif text == "--":
            only_operands = True
        elif text.startswith("--"):
            _take_long_option(program, text, waiting, found)
        else:
            _take_short_options(program, text, waiting, found)
    return found


def _may_be_option(token: Word) -> bool:
    return token.kind == "unknown" or (token.kind == "glob" and token.text[:1] in _MAY_BECOME_OPTION)


def _take_long_option(program: FileProgram, text: str, waiting: list[Word], found: FileArguments) -> None:
    written, equals, value = text.partition("=")
    given = Word(value, value, "literal") if equals else None
    named = [name for name in program.long_names if name == written] or [
        name for name in program.long_names if name.startswith(written)
    ]
    if len(named) != 1:
        found.unknown = found.unknown or text
        # Better one path too many than one too few.
        found.operands += [given] if given is not None else []
        return
    name = named[0]
    if name in program.with_value and given is None:
        given = waiting.pop() if waiting else None
    found.options.append((name, given))


def _take_short_options(program: FileProgram, text: str, waiting: list[Word], found: FileArguments) -> None:
    if text in program.with_value:
        # A long name with one dash, as openssl has them, or the last letter of its own.
        found.options.append((text, waiting.pop() if waiting else None))
        return
    for place in range(1, len(text)):
        name, rest = f"-{text[place]}", text[place + 1 :]
        if name in program.with_value:
            given = Word(rest, rest, "literal") if rest else waiting.pop() if waiting else None
            found.options.append((name, given))
            return
        if name in program.optional and (rest or name not in program.without_value):
            found.options.append((name, Word(rest, rest, "literal") if rest else None))
            return
        if name not in program.without_value:
            found.unknown = found.unknown or text
            found.operands += [Word(rest, rest, "literal")] if rest else []
            return
        found.options.append((name, None))
