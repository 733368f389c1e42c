"""Reads a command: by the tree, and once more by a strict reader where it is plain."""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ostler.tools.commands.syntax import tree
from ostler.tools.commands.syntax.parsed import Part, Reading
from ostler.tools.commands.syntax.strict_parser import ASSIGNMENT, RESERVED, PlainCommand, on_one_line, read_plain
from ostler.tools.commands.syntax.walk import Walk
from ostler.tools.commands.syntax.words import Word

MAX_BYTES: Final = 100_000
_TOO_LONG: Final = f"it is longer than {MAX_BYTES} bytes"
_MAX_PARTS: Final = 1000
_REMEMBERED_LENGTH: Final = 16_384
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that are drawn as nothing."""
_BLANKS: Final = frozenset("\t\n ")
_NO_NAMES: Final = RESERVED - {"time", "coproc", "[["}
"""Reserved words, but those that the tree shows as a command's name, and that are looked through as such."""


def read_command(command: str) -> Reading:
    """What a command consists of. Never raises: what is not understood is said in `problem`."""
    if len(command) > MAX_BYTES:
        # Not remembered: megabytes would be kept for what is known at once.
        return _too_long(command)
    return _remembered(command) if len(command) <= _REMEMBERED_LENGTH else _remembered_long(command)


@lru_cache(maxsize=256)
def _remembered(command: str) -> Reading:
    # One call is judged several times: validation, permission, the run itself.
    return _read(command)


@lru_cache(maxsize=8)
def _remembered_long(command: str) -> Reading:
    return _read(command)


def forget() -> None:
    """For who measures: the next command is new."""
    _remembered.cache_clear()
    _remembered_long.cache_clear()


def _read(command: str) -> Reading:
    reading = _read_once(command)
    if reading.problem in {None, _TOO_LONG} or "\n" not in command:
        return reading
    # The tree takes some line ends for blanks, behind a pipeline of three for one; a semicolon it knows.
    line = on_one_line(command)
    again = _read_once(line) if line is not None else reading
    return reading if again.problem else replace(again, command=command)


def _read_once(command: str) -> Reading:
    data = command.encode("utf-8", "surrogatepass")
    known: dict[str, Word] = {}
    if len(data) > MAX_BYTES:
        return _too_long(command)
    problem = _refused_character(command)
    root, distrust = tree.parse(data)
    problem = problem or distrust
    if root is None:
        return Reading(command, (), problem, plain=False)
    commands = read_plain(command, known) if problem is None else None
    walk = Walk(command, data, known)
    walk.program(root)
    parts = tuple(walk.parts)
    problem = problem or walk.problem or _bad_name(parts)
    if len(parts) > _MAX_PARTS:
        # All of them are still there for deny and ask rules: only what would let the command pass ends here.
        problem = problem or f"it has more than {_MAX_PARTS} parts"
    plain = problem is None and commands is not None
    if plain and not _agree(commands or [], parts):
        return Reading(command, parts, "it can be read in two ways", plain=False)
    if problem is None and not parts:
        problem = "there is no command in it"
    return Reading(command, parts, problem, plain=plain)


def _too_long(command: str) -> Reading:
    return Reading(command, (), _TOO_LONG, plain=False)


def _refused_character(command: str) -> str | None:
    if command.isascii() and command.isprintable():
        return None
    refused = {character for character in set(command) - _BLANKS if _is_refused(character)}
    if not refused:
        return None
    first = next(character for character in command if character in refused)
    return f"it holds the character U+{ord(first):04X}"


def _is_refused(character: str) -> bool:
    return unicodedata.category(character) in _REFUSED or character in _FILLERS


def _bad_name(parts: tuple[Part, ...]) -> str | None:
    for part in parts:
        first = part.tokens[0].source if part.tokens else ""
        if first in _NO_NAMES:
            return f"the reserved word {first} stands where a command should be"
        if "=" in first and ASSIGNMENT.match(first):
            return f"the assignment {first} stands where a command should be"
    return None


def _agree(commands: list[PlainCommand], parts: tuple[Part, ...]) -> bool:
    return len(commands) == len(parts) and all(map(_is_same, commands, parts))


def _is_same(command: PlainCommand, part: Part) -> bool:
    if tuple(command.words) != part.tokens and _meant(command.words) != _meant(part.tokens):
        return False
    mine = [(fd, operator, *_meant([target])) for fd, operator, target in command.redirections]
    return mine == [(found.fd, found.operator, *_meant([found.target])) for found in part.redirections]


def _meant(words: Iterable[Word]) -> list[tuple[str, str]]:
    return [(word.text, word.kind) for word in words]
