"""What PowerShell itself says about a command: it only reads, it waits, or a person has to look."""

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from ostler.tools import commands
from ostler.tools.commands import Part, Reading, Touched
from ostler.tools.commands.syntax.parsed import literal_word, unknown_word
from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import OfCommand, places_of, real_in_command
from ostler.tools.shell.powershell_parser import NotPlain, Plain, plain_commands
from ostler.tools.text import one_line
from ostler.tools.tool import Activity, Allow, AskFirst, Check

_MAX_PARTS: Final = 50
_FOLDED: Final[tuple[Activity, ...]] = ("search", "read", "list")
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./*?+=%@][A-Za-z0-9_./ *?+=%@-]*")
_PATTERN: Final = re.compile(r"[*?]")
_NUMBER: Final = re.compile(r"-\d+(?:\.\d+)?")


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


class Refused(Exception):
    """Why a command may do more than read; the message says so."""


@dataclass(frozen=True, slots=True)
class Reads:
    """A path that a command reads."""

    path: str
    deep: bool = False


@cache
def cmdlets() -> dict[str, Cmdlet]:
    """By name and alias, in small letters."""
    text = resources.files("ostler.tools.shell").joinpath("powershell.toml").read_text("utf-8")
    found: dict[str, Cmdlet] = {}
    for name, entry in tomllib.loads(text).items():
        cmdlet = Cmdlet(name, **{key: _frozen(key, value) for key, value in entry.items()})
        found.update(dict.fromkeys([name.lower(), *cmdlet.aliases], cmdlet))
    return found


def _frozen(key: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(value) if key in {"aliases", "positional"} else frozenset(each.lower() for each in value)


def known_name(word: str) -> str:
    """As rules name it: an alias by what it stands for."""
    cmdlet = cmdlets().get(word.lower())
    return cmdlet.name if cmdlet is not None else word


def reading_of(command: str) -> Reading:
    """As permission rules look at commands: each by the name that the table has for it."""
    found = plain_commands(command)
    if isinstance(found, NotPlain):
        return Reading(command, (Part(command, (unknown_word(command),)),), str(found), plain=False)
    parts = (Part(each.text, tuple(map(literal_word, (known_name(each.words[0]), *each.words[1:])))) for each in found)
    return Reading(command, tuple(parts), None, plain=True)


def read_by(command: str) -> list[Reads]:
    """All that it reads, by the words alone. Raises Refused where it may do more than read."""
    found = plain_commands(command)
    if isinstance(found, NotPlain):
        raise Refused(f"it is not fully understood: {found}")
    if len(found) > _MAX_PARTS:
        raise Refused(f"it has more than {_MAX_PARTS} parts")
    return [path for each in found for path in _of_one(each)]


def seems_read_only(command: str) -> bool:
    try:
        read_by(command)
    except Refused:
        return False
    return True


def is_destructive(command: str) -> bool:
    """Names and parameters are taken in any case; a program of the system's has its own, which may matter to it."""
    return commands.is_destructive(reading_of(command)) or commands.is_destructive(reading_of(command.lower()))


def activity_of(command: str) -> Activity:
    """What the first command of a chain that only reads is there for."""
    found = plain_commands(command)
    if isinstance(found, NotPlain) or not seems_read_only(command):
        return "run"
    kinds = {cmdlets()[each.words[0].lower()].activity for each in found}
    for kind in _FOLDED:
        if kind in kinds:
            return kind
    return "run"


def check(command: str, surroundings: Surroundings) -> Check:
    """Blocks: looks where the paths lead."""
    message = f"Run this command: {one_line(command, 200)}"
    try:
        reads = read_by(command)
    except Refused as error:
        words = str(error)
        return AskFirst(message, reason=f"{words[:1].upper()}{words[1:]}.")
    for each in reads:
        place = real_in_command(_path(each, surroundings.shell_folder))
        if paths.of_the_daemon(place, surroundings):
            return AskFirst(message, reason=f"{each.path} is in the daemon's own folder.", safety=True)
        if not paths.inside_roots(place, surroundings):
            return AskFirst(message, reason=f"{each.path} is outside the session's folders.")
    return Allow()


def subject(command: str, folder: str) -> OfCommand:
    """What rules look at. Blocks, as above."""
    try:
        touched = [Touched(_path(each, folder), writes=False, deep=each.deep) for each in read_by(command)]
    except Refused:
        touched = [Touched(os.path.join(folder, word), writes=True) for word in _perhaps_files(command)]
    return OfCommand(reading_of(command), places_of(touched))


def _perhaps_files(command: str) -> list[str]:
    """Of a command that may do anything with them: every word that could be a file."""
    found = plain_commands(command)
    if isinstance(found, NotPlain):
        return []
    words = [word for each in found for word in each.words[1:]]
    return [word.partition(":")[2] if word.startswith("-") else word for word in words if word.strip("-")]


def _path(reads: Reads, folder: str) -> str:
    """Of a pattern the folder: what it matches is below."""
    fixed = _fixed(reads.path)
    return os.path.join(folder, reads.path if fixed == reads.path else os.path.dirname(fixed))


def _of_one(command: Plain) -> list[Reads]:
    name = command.words[0]
    cmdlet = cmdlets().get(name.lower())
    if cmdlet is None:
        raise Refused(f"{name} is not in the table of commands that only read")
    if command.piped and not cmdlet.piped:
        raise Refused(f"what {name} reads comes through a pipe")
    given, operands = _sorted(cmdlet, command)
    named = [value for parameter, value in given if parameter in cmdlet.paths]
    named += _positional(cmdlet, {parameter for parameter, _ in given}, operands)
    deep = any(parameter in cmdlet.deep for parameter, _ in given)
    found = [_checked(path, deep=deep) for path in named]
    return found or ([Reads(".", deep)] if cmdlet.folder else [])


def _sorted(cmdlet: Cmdlet, command: Plain) -> tuple[list[tuple[str, str]], list[str]]:
    """Parameters with their values, and operands."""
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
            raise Refused(f"{word} is not known to be harmless")
        if not value:
            value = _value(word, waiting)
        given.append((parameter, value))
    return given, operands


def _value(parameter: str, waiting: list[tuple[str, bool]]) -> str:
    if not waiting:
        raise Refused(f"{parameter} has no value")
    value, quoted = waiting.pop()
    if not quoted and value.startswith("-") and not _NUMBER.fullmatch(value):
        raise Refused(f"the value of {parameter} is not plain")
    return value


def _positional(cmdlet: Cmdlet, named: set[str], operands: list[str]) -> list[str]:
    """The operands that are paths: each is taken for the first parameter that was not given by its name."""
    has_path = bool(named & cmdlet.paths)
    free = [
        name
        for name in map(str.lower, cmdlet.positional)
        if name not in named and not (has_path and name in cmdlet.paths)
    ]
    if len(operands) > len(free) and not cmdlet.many:
        raise Refused(f"{operands[len(free)]} is one operand too many")
    return [word for name, word in zip(free, operands, strict=False) if name in cmdlet.paths]


def _checked(path: str, *, deep: bool) -> Reads:
    """Drives, providers, lists, homes and the other slash are left to a person."""
    if _PLAIN_PATH.fullmatch(path) is None:
        raise Refused(f"{path} is no plain path")
    fixed = _fixed(path)
    if ".." in path[len(fixed) :]:
        raise Refused(f"{path} goes up behind a pattern")
    return Reads(path, deep or fixed != path)


def _fixed(path: str) -> str:
    """As far as it is no pattern."""
    return _PATTERN.split(path, maxsplit=1)[0]
