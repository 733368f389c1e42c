"""PowerShell's own permission check of a command: whether it only reads inside the roots, or has to be asked about."""

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.commands import FileAccess, ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.parsed import make_literal_word, make_unknown_word
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import CommandSubject, resolve_accesses, resolve_in_command
from ostler.tools.shell.powershell_parser import PowerShellCommand, UnsupportedSyntax, parse_powershell
from ostler.tools.text import one_line
from ostler.tools.tool import Activity, Allow, AskFirst, Check

_MAX_PARTS: Final = 50
_ACTIVITY_ORDER: Final[tuple[Activity, ...]] = ("search", "read", "list")
_PLAIN_PATH: Final = compile_later(r"[A-Za-z0-9_./*?+=%@][A-Za-z0-9_./ *?+=%@-]*")
_PATTERN: Final = compile_later(r"[*?]")
_NUMBER: Final = compile_later(r"-\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Cmdlet:
    """One entry of powershell.toml, whose words are explained there."""

    name: str
    aliases: tuple[str, ...] = ()
    switches: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    positional: tuple[str, ...] = ()
    many: bool = False
    folder: bool = False
    deep: frozenset[str] = frozenset()
    piped: bool = False
    activity: Activity = "other"


class NotReadOnly(Exception):
    """A command may do more than read; the message says why."""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A path that a command reads."""

    path: str
    deep: bool = False


@cache
def load_cmdlets() -> dict[str, Cmdlet]:
    """By name and alias, in small letters."""
    text = Path(__file__).with_name("powershell.toml").read_text("utf-8")
    found: dict[str, Cmdlet] = {}
    for name, entry in tomllib.loads(text).items():
        cmdlet = Cmdlet(name, **{key: _freeze(key, value) for key, value in entry.items()})
        found.update(dict.fromkeys([name.lower(), *cmdlet.aliases], cmdlet))
    return found


def _freeze(key: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(value) if key in {"aliases", "positional"} else frozenset(each.lower() for each in value)


def resolve_alias(word: str) -> str:
    """The name that rules use: of an alias the name of its cmdlet."""
    cmdlet = load_cmdlets().get(word.lower())
    return cmdlet.name if cmdlet is not None else word


def parse_for_rules(command: str) -> ParsedCommand:
    """Parses a command for permission rules, with each cmdlet by its full name."""
    found = parse_powershell(command)
    if isinstance(found, UnsupportedSyntax):
        return ParsedCommand(command, (SimpleCommand(command, (make_unknown_word(command),)),), str(found), plain=False)
    parts = (
        SimpleCommand(each.text, tuple(map(make_literal_word, (resolve_alias(each.words[0]), *each.words[1:]))))
        for each in found
    )
    return ParsedCommand(command, tuple(parts), None, plain=True)


def list_read_paths(command: str) -> list[ReadPath]:
    """All paths that it reads, by its text alone. Raises NotReadOnly where it may do more than read."""
    found = parse_powershell(command)
    if isinstance(found, UnsupportedSyntax):
        raise NotReadOnly(f"it is not fully understood: {found}")
    if len(found) > _MAX_PARTS:
        raise NotReadOnly(f"it has more than {_MAX_PARTS} parts")
    return [path for each in found for path in _list_command_reads(each)]


def seems_read_only(command: str) -> bool:
    try:
        list_read_paths(command)
    except NotReadOnly:
        return False
    return True


def is_destructive(command: str) -> bool:
    """Checked as written and in lower case: PowerShell ignores the case of names and parameters, others do not."""
    return commands.is_destructive(parse_for_rules(command)) or commands.is_destructive(
        parse_for_rules(command.lower())
    )


def classify_activity(command: str) -> Activity:
    """Of a command that only reads, the first of: search, read, list. All others run."""
    found = parse_powershell(command)
    if isinstance(found, UnsupportedSyntax) or not seems_read_only(command):
        return "run"
    kinds = {load_cmdlets()[each.words[0].lower()].activity for each in found}
    for kind in _ACTIVITY_ORDER:
        if kind in kinds:
            return kind
    return "run"


def check(command: str, session: SessionView) -> Check:
    """Decides about a command. Blocks: resolves the paths."""
    message = f"Run this command: {one_line(command, 200)}"
    try:
        reads = list_read_paths(command)
    except NotReadOnly as error:
        words = str(error)
        return AskFirst(message, reason=f"{words[:1].upper()}{words[1:]}.")
    for each in reads:
        place = resolve_in_command(_resolve_path(each, session.shell_folder))
        if paths.is_in_daemon_home(place, session):
            return AskFirst(message, reason=f"{each.path} is in the daemon's own folder.", safety=True)
        if not paths.is_inside_roots(place, session):
            return AskFirst(message, reason=f"{each.path} is outside the session's folders.")
    return Allow()


def find_subject(command: str, folder: str) -> CommandSubject:
    """What rules are matched with. Blocks, as above."""
    try:
        touched = [FileAccess(_resolve_path(each, folder), "read", deep=each.deep) for each in list_read_paths(command)]
    except NotReadOnly:
        touched = [FileAccess(os.path.join(folder, word), "write") for word in _list_possible_files(command)]
    return CommandSubject(parse_for_rules(command), resolve_accesses(touched))


def _list_possible_files(command: str) -> list[str]:
    """Every word that could be a file, of a command that may do anything with it."""
    found = parse_powershell(command)
    if isinstance(found, UnsupportedSyntax):
        return []
    words = [word for each in found for word in each.words[1:]]
    return [word.partition(":")[2] if word.startswith("-") else word for word in words if word.strip("-")]


def _resolve_path(reads: ReadPath, folder: str) -> str:
    """The absolute path; of a pattern that of the folder in which it matches."""
    fixed = _strip_pattern(reads.path)
    return os.path.join(folder, reads.path if fixed == reads.path else os.path.dirname(fixed))


def _list_command_reads(command: PowerShellCommand) -> list[ReadPath]:
    name = command.words[0]
    cmdlet = load_cmdlets().get(name.lower())
    if cmdlet is None:
        raise NotReadOnly(f"{name} is not in the table of commands that only read")
    if command.piped and not cmdlet.piped:
        raise NotReadOnly(f"what {name} reads comes through a pipe")
    given, operands = _split_arguments(cmdlet, command)
    named = [value for parameter, value in given if parameter in cmdlet.paths]
    named += _match_positional(cmdlet, {parameter for parameter, _ in given}, operands)
    deep = any(parameter in cmdlet.deep for parameter, _ in given)
    found = [_check_path(path, deep=deep) for path in named]
    return found or ([ReadPath(".", deep)] if cmdlet.folder else [])


def _split_arguments(cmdlet: Cmdlet, command: PowerShellCommand) -> tuple[list[tuple[str, str]], list[str]]:
    """The parameters with their values, and the operands."""
    given: list[tuple[str, str]] = []
    operands: list[str] = []
    waiting = list(zip(command.words, command.quoted, strict=True))[:0:-1]
    while waiting:
        word, quoted = waiting.pop()
        if quoted or not word.startswith("-") or _NUMBER.fullmatch(word):
            operands.append(word)
            continue
        parameter, colon, value = word[1:].partition(":")
        parameter = parameter.lower()
        if parameter in cmdlet.switches and not colon:
            given.append((parameter, ""))
            continue
        # By its whole name: a short one may mean another parameter in another version.
        if parameter not in cmdlet.values | cmdlet.paths:
            raise NotReadOnly(f"{word} is not known to be harmless")
        if not value:
            value = _take_value(word, waiting)
        given.append((parameter, value))
    return given, operands


def _take_value(parameter: str, waiting: list[tuple[str, bool]]) -> str:
    if not waiting:
        raise NotReadOnly(f"{parameter} has no value")
    value, quoted = waiting.pop()
    if not quoted and value.startswith("-") and not _NUMBER.fullmatch(value):
        raise NotReadOnly(f"the value of {parameter} is not plain")
    return value


def _match_positional(cmdlet: Cmdlet, named: set[str], operands: list[str]) -> list[str]:
    """The operands that are paths: each is taken for the first parameter that was not given by its name."""
    has_path = bool(named & cmdlet.paths)
    free = [
        name
        for name in map(str.lower, cmdlet.positional)
        if name not in named and not (has_path and name in cmdlet.paths)
    ]
    if len(operands) > len(free) and not cmdlet.many:
        raise NotReadOnly(f"{operands[len(free)]} is one operand too many")
    return [word for name, word in zip(free, operands, strict=False) if name in cmdlet.paths]


def _check_path(path: str, *, deep: bool) -> ReadPath:
    """Refuses drives, providers, lists, homes and backslashes: a person decides about these."""
    if _PLAIN_PATH.fullmatch(path) is None:
        raise NotReadOnly(f"{path} is no plain path")
    fixed = _strip_pattern(path)
    if ".." in path[len(fixed) :]:
        raise NotReadOnly(f"{path} goes up behind a pattern")
    return ReadPath(path, deep or fixed != path)


def _strip_pattern(path: str) -> str:
    """The part of a path before its first wildcard."""
    return _PATTERN.split(path, maxsplit=1)[0]
