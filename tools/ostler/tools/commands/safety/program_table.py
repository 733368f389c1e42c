"""The table of read-only programs: loads it, and checks arguments against its options and operands."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.words import Word

if TYPE_CHECKING:
    from ostler.tools.commands.safety.read_only_programs.listing import Listing

_NUMBER: Final = compile_later(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[a-zA-Z]{1,3}|%)?")
_OUTPUT: Final = compile_later(r"wide|yaml|json|name|(?:jsonpath|custom-columns)=.*", re.DOTALL)
"""Formats of kubectl that are no template and no file."""
FILTER_READS: Final = compile_later(
    r"(?<![.\w])env\b|\$ENV|\$__|\b(?:import|include|input_filename|get_search_list|modulemeta|getenv|halt_error)\b"
)
"""What a filter of jq reads besides its input."""
_SHORT_NUMBER: Final = compile_later(r"-[0-9]+")

ValueKind = Literal["number", "text", "file", "format", "filter", "output"]
Grammar = Literal["getopt", "posix", "clap", "own"]


@dataclass(frozen=True, slots=True)
class Program:
    """One entry; the words are explained at the top of programs.toml and git.toml."""

    grammar: Grammar = "getopt"
    short: str = ""
    short_values: dict[str, ValueKind] = field(default_factory=dict)
    short_optional: dict[str, ValueKind] = field(default_factory=dict)
    long: tuple[str, ...] = ()
    long_values: dict[str, ValueKind] = field(default_factory=dict)
    long_optional: dict[str, ValueKind] = field(default_factory=dict)
    exact: tuple[str, ...] = ()
    number: bool = False
    operands: Literal["files", "text", "none", "pattern", "numbers", "command"] = "none"
    pattern_options: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    folder: bool = False
    deep: bool = False
    deep_options: tuple[str, ...] = ()
    follow_options: tuple[str, ...] = ()
    follows: bool = False
    no_follow: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    bundles: bool = True
    attached: bool = False
    stops: bool = False
    dashed_values: tuple[str, ...] = ()
    last_default: tuple[str, ...] = ()
    special: str | None = None
    list_options: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    local_list: bool = False
    refused: str = ""
    refused_first: str = ""
    refused_words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """What a read-only command reads."""

    files: tuple[Word, ...] = ()
    deep: bool = False
    folder: bool = False
    """It reads the folder that it runs in."""
    follows: bool = False
    """With `deep`: through the links below, too."""
    git: bool = False
    git_folder: Word | None = None
    """The folder that git runs in, where it is told another one."""
    listing: "Listing | None" = None
    """It runs a program on files whose names are known only when it runs."""
    checksums: tuple[Word, ...] = ()
    """Lists in which the files stand that it reads besides."""
    choosers: tuple[str, ...] = ()
    """Files that choose what it really runs, here or in a folder above: there may be none."""


@dataclass(slots=True)
class Arguments:
    """A program's arguments, sorted by what they are."""

    options: list[tuple[str, Word | None, ValueKind | None]] = field(default_factory=list)
    operands: list[Word] = field(default_factory=list)

    def has(self, names: Sequence[str]) -> bool:
        return any(name in names for name, _, _ in self.options)


class NotReadOnly(Exception):
    """A command that may do more than read, for instance by an argument that the table does not have."""


@cache
def load_programs() -> dict[str, Program]:
    """The programs that may be read-only, by name."""
    return _parse_programs("programs.toml")


@cache
def load_git_forms() -> dict[str, Program]:
    """The forms of git that only read, by subcommand; some have two words."""
    return _parse_programs("git.toml", without=("harmless",))


def load_toml(name: str, package: str = "safety") -> dict[str, Any]:
    """A table of one of the packages about commands. Not kept: whoever needs it again keeps what is made of it."""
    return tomllib.loads(Path(__file__).parent.with_name(package).joinpath(name).read_text("utf-8"))


def _parse_programs(name: str, without: Sequence[str] = ()) -> dict[str, Program]:
    entries = load_toml(name)
    return {key: parse_program(entry, entries) for key, entry in entries.items() if key not in without}


def parse_program(entry: dict[str, Any], entries: dict[str, Any]) -> Program:
    """One entry of a table, with what it takes over from others by `like`."""
    named = entry.get("like", [])
    merged: dict[str, Any] = {}
    for source in [*(entries[other] for other in ([named] if isinstance(named, str) else named)), entry]:
        for key, value in source.items():
            joins = key in merged and (key == "short" or not isinstance(value, str))
            merged[key] = _merge_values(merged[key], value) if joins else value
    # A word that is not known is a mistake in the table, and raises.
    return Program(**{key: freeze(value) for key, value in merged.items() if key != "like"})


def freeze(value: Any) -> Any:
    """A list as a tuple; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def _merge_values(before: Any, more: Any) -> Any:
    match before, more:
        case dict(), dict():
            return before | more
        case str(), str():
            return before + more
        case list(), list():
            return [*before, *more]
        case _:
            return more


def parse_arguments(program: Program, tokens: Sequence[Word]) -> Arguments:
    """The arguments, all of whose options are in the table. Raises NotReadOnly, and says which is not."""
    found = Arguments()
    waiting = list(tokens)[::-1]
    # Behind `--`, or behind an operand that ends the options, there are only operands.
    dashes = stopped = False
    while waiting:
        token = waiting.pop()
        text = token.text
        only_operands = dashes or stopped
        if token.kind == "literal" and not only_operands and text in program.exact:
            found.options.append((text, None, None))
            continue
        _check_first_character(program, token)
        if token.kind == "glob" and not only_operands and _is_value_pattern(program, token):
            found.options.append((text[2:].partition("=")[0], None, None))
        elif token.kind != "literal" or only_operands or text == "-" or not text.startswith("-"):
            if stopped and not dashes and text.startswith("-"):
                _check_behind_operand(program, token)
            found.operands.append(_check_operand(token))
            stopped |= program.stops or program.grammar == "posix"
        elif text == "--" and program.grammar != "own":
            dashes = True
        elif text.startswith("--"):
            _parse_long_option(program, text, waiting, found)
        elif program.number and _SHORT_NUMBER.fullmatch(text):
            found.options.append(("number", None, None))
        elif program.operands == "numbers" and _NUMBER.fullmatch(text):
            found.operands.append(token)
        else:
            _parse_short_options(program, text, waiting, found)
    _check_operands(program, found)
    return found


def _check_behind_operand(program: Program, token: Word) -> None:
    """For the program a word with a dash is an operand there. Whoever wrote it may have meant an option."""
    number = program.operands == "numbers" and _NUMBER.fullmatch(token.text)
    if token.text != "-" and not number and program.operands != "command":
        raise NotReadOnly(f"{token.source} is no option any more")


def _check_first_character(program: Program, token: Word) -> None:
    if token.text and token.text[0] in program.refused_first:
        raise NotReadOnly(f"the program would read {token.source} in a way of its own")


def _is_value_pattern(program: Program, token: Word) -> bool:
    """`--include=*.py`: whatever it becomes, it is that option with some text."""
    name, equals, _ = re.split(r"[*?\[]", token.text, maxsplit=1)[0].partition("=")
    return bool(equals) and name.startswith("--") and program.long_values.get(name[2:]) == "text"


def _check_operand(token: Word) -> Word:
    # A pattern is judged by what we expand it to: see glob_expansion.
    if token.kind == "unknown":
        raise NotReadOnly(f"{token.source} is decided when it runs")
    return token


def _parse_long_option(program: Program, text: str, waiting: list[Word], found: Arguments) -> None:
    name, equals, value = text[2:].partition("=")
    if name in program.last_default and not equals and not waiting:
        found.options.append((name, None, None))
    elif name in program.long_values:
        kind = program.long_values[name]
        if program.grammar == "own" and not equals:
            # Which of these take the next word as well is a matter of the program's version.
            raise NotReadOnly(f"the value of {text} has to be attached to it")
        given = Word(value, value, "literal") if equals else _take_next(program, text, name, waiting)
        found.options.append((name, _check_value(text, given, kind), kind))
    elif equals and name in program.long_optional:
        kind = program.long_optional[name]
        found.options.append((name, _check_value(text, Word(value, value, "literal"), kind), kind))
    elif not equals and (name in program.long or name in program.long_optional):
        found.options.append((name, None, None))
    else:
        raise NotReadOnly(f"--{name} is not known to be harmless")


def _parse_short_options(program: Program, text: str, waiting: list[Word], found: Arguments) -> None:
    if program.grammar == "own":
        _check_own_bundle(program, text)
    for place in range(1, len(text)):
        letter, rest = text[place], text[place + 1 :]
        if program.grammar == "clap" and letter in program.short_values:
            rest = rest.removeprefix("=")
        if letter in program.short_values:
            kind = program.short_values[letter]
            given = Word(rest, rest, "literal") if rest else _take_next(program, text, letter, waiting)
            found.options.append((letter, _check_value(text, given, kind), kind))
            return
        if letter in program.short_optional and (rest or letter not in program.short):
            kind = program.short_optional[letter]
            given = Word(rest, rest, "literal")
            found.options.append((letter, _check_value(text, given, kind) if rest else None, kind))
            return
        if letter not in program.short:
            raise NotReadOnly(f"-{letter} is not known to be harmless")
        found.options.append((letter, None, None))


def _check_own_bundle(program: Program, text: str) -> None:
    """With a grammar of its own a program may read on behind a letter that takes a value, as tree does in `-Po`.

    So such a letter stands alone or last, unless the table says that its value is attached.
    """
    if program.attached and text[1] in program.short_values:
        return
    if len(text) > 2 and (not program.bundles or any(letter in program.short_values for letter in text[1:-1])):
        raise NotReadOnly(f"{text} is not known to be harmless")


def _take_next(program: Program, option: str, name: str, waiting: list[Word]) -> Word:
    if not waiting:
        raise NotReadOnly(f"{option} has no value")
    value = waiting.pop()
    _check_first_character(program, value)
    dashed = value.text.startswith("-") and not value.text[1:].isdecimal()
    if program.grammar in {"clap", "own"} and dashed and name not in program.dashed_values:
        raise NotReadOnly(f"{value.source} may be an option")
    return value


def _check_value(option: str, value: Word, kind: ValueKind) -> Word:
    if value.kind != "literal" and not (value.kind == "home" and kind == "file"):
        raise NotReadOnly(f"the value of {option} is decided when it runs")
    if kind == "number" and not _NUMBER.fullmatch(value.text):
        raise NotReadOnly(f"the value of {option} is no number")
    if kind == "filter" and FILTER_READS.search(value.text):
        raise NotReadOnly(f"{option} may read the environment or other files")
    if kind == "output" and not _OUTPUT.fullmatch(value.text):
        raise NotReadOnly(f"the value of {option} is not known to be harmless")
    # `%G` runs the program that checks signatures.
    if kind == "format" and ("%G" in value.text or "signature" in value.text):
        raise NotReadOnly(f"{option} checks signatures")
    return value


def _check_operands(program: Program, found: Arguments) -> None:
    operands = found.operands
    if program.operands == "none" and operands:
        raise NotReadOnly(f"{operands[0].source} is one operand too many")
    if program.operands == "numbers" and not all(_NUMBER.fullmatch(operand.text) for operand in operands):
        raise NotReadOnly("an operand is no number")
    if len(operands) < program.least:
        raise NotReadOnly("an operand is missing")
    if program.most is not None and len(operands) > program.most:
        raise NotReadOnly(f"{operands[program.most].source} is one operand too many")
    if program.list_options and operands and not found.has(program.list_options):
        raise NotReadOnly(f"{operands[0].source} would be created")
    if program.first and operands and not any(fnmatchcase(operands[0].text, each) for each in program.first):
        raise NotReadOnly(f"{operands[0].source} is not known to be harmless")
    if program.needs and not found.has(program.needs):
        raise NotReadOnly("without an option that only shows something it is not known to be harmless")
    if program.among and not all(operand.text in program.among for operand in operands):
        raise NotReadOnly("an operand is not known to be harmless")
    if program.refused and (bad := next((each for each in operands if set(each.text) & set(program.refused)), None)):
        raise NotReadOnly(f"the program would read {bad.source} in a way of its own")


def find_file_operands(program: Program, found: Arguments) -> list[Word]:
    """The words that name files: operands, and the values of some options."""
    named = [value for _, value, kind in found.options if kind == "file" and value is not None]
    match program.operands:
        case "files":
            return [*named, *found.operands]
        case "pattern":
            return [*named, *found.operands[0 if found.has(program.pattern_options) else 1 :]]
        case _:
            return named


def check_options(program: Program, tokens: Sequence[Word]) -> ReadAccess:
    """Checks the options by the table. Raises NotReadOnly."""
    return build_access(program, parse_arguments(program, tokens))


def add_suffixes(files: Sequence[Word], suffixes: Sequence[str]) -> tuple[Word, ...]:
    """The files, and those that are read in their place where they do not exist."""
    more = [Word(word.source, word.text + ending, word.kind) for word in files for ending in suffixes]
    return (*files, *more)


def build_access(program: Program, found: Arguments) -> ReadAccess:
    """What a program reads that was called with these arguments."""
    files = add_suffixes(find_file_operands(program, found), program.suffixes)
    # What follows the links below a folder reads below it, recursive or not: `ls -L`.
    deep = program.deep or found.has(program.deep_options) or found.has(program.follow_options)
    folder = not files and (program.folder or (deep and bool(program.deep_options)))
    follows = deep and (found.has(program.follow_options) or (program.follows and not found.has(program.no_follow)))
    return ReadAccess(files, deep=deep, folder=folder, follows=follows, choosers=program.unless)
