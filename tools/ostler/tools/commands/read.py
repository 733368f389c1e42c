"""Reads a command: by the tree, and once more by a strict reader where it is plain."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ostler.tools.commands import tree
from ostler.tools.commands.plain import ASSIGNMENT, RESERVED, PlainCommand, read_plain
from ostler.tools.commands.reading import Part, Reading
from ostler.tools.commands.walk import Walk
from ostler.tools.commands.words import Word

MAX_BYTES: Final = 100_000
_MAX_PARTS: Final = 1000
_REMEMBERED_LENGTH: Final = 16_384
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that are drawn as nothing."""
_AS_WRAPPERS: Final = frozenset({"time", "coproc", "[["})
"""Reserved words that the tree shows as a command's name, and that are looked through as such."""


def read_command(command: str) -> Reading:
    """What a command consists of. Never raises: what is not understood is said in `problem`."""
    return _remembered(command) if len(command) <= _REMEMBERED_LENGTH else _read(command)


@lru_cache(maxsize=256)
def _remembered(command: str) -> Reading:
    # One call is judged several times: validation, permission, the run itself.
    return _read(command)


def forget() -> None:
    """For who measures: the next command is new."""
    _remembered.cache_clear()


def _read(command: str) -> Reading:
    data = command.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BYTES:
        return Reading(command, (), f"it is longer than {MAX_BYTES} bytes", plain=False)
    problem = _refused_character(command)
    parsed, distrust = tree.parse(data)
    if parsed is None:
        return Reading(command, (), problem or distrust, plain=False)
    walk = Walk(data)
    walk.program(parsed.root_node)
    parts = tuple(walk.parts)
    problem = problem or distrust or walk.problem or _bad_name(parts)
    if len(parts) > _MAX_PARTS:
        # All of them are still there for deny and ask rules: only what would let the command pass ends here.
        problem = problem or f"it has more than {_MAX_PARTS} parts"
    commands = read_plain(command) if problem is None else None
    if commands is not None and not _agree(commands, parts):
        return Reading(command, parts, "it can be read in two ways", plain=False)
    if problem is None and not parts:
        problem = "there is no command in it"
    return Reading(command, parts, problem, plain=commands is not None)


def _refused_character(command: str) -> str | None:
    if command.isascii() and command.isprintable():
        return None
    for character in command:
        if character in "\t\n ":
            continue
        if unicodedata.category(character) in _REFUSED or character in _FILLERS:
            return f"it holds the character U+{ord(character):04X}"
    return None


def _bad_name(parts: tuple[Part, ...]) -> str | None:
    for part in parts:
        if part.tokens and part.tokens[0].source in RESERVED - _AS_WRAPPERS:
            return f"the reserved word {part.tokens[0].source} stands where a command should be"
        if part.tokens and ASSIGNMENT.match(part.tokens[0].source):
            return f"the assignment {part.tokens[0].source} stands where a command should be"
    return None


def _agree(commands: list[PlainCommand], parts: tuple[Part, ...]) -> bool:
    mine = [
        (_meant(command.words), [(fd, operator, *_meant([target])) for fd, operator, target in command.redirections])
        for command in commands
    ]
    theirs = [
        (_meant(part.tokens), [(found.fd, found.operator, *_meant([found.target])) for found in part.redirections])
        for part in parts
    ]
    return mine == theirs


def _meant(words: Iterable[Word]) -> list[tuple[str, str]]:
    return [(word.text, word.kind) for word in words]
