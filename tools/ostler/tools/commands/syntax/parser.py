"""Parses a command: by its syntax tree, and once more by the strict parser where it is plain."""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ostler.tools.commands.syntax import tree
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.strict_parser import ASSIGNMENT, RESERVED, PlainCommand, join_lines, parse_strictly
from ostler.tools.commands.syntax.walk import TreeWalk
from ostler.tools.commands.syntax.words import Word

MAX_BYTES: Final = 100_000
_TOO_LONG: Final = f"it is longer than {MAX_BYTES} bytes"
_MAX_PARTS: Final = 1000
_MAX_CACHED_LENGTH: Final = 16_384
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that are displayed as nothing."""
_BLANKS: Final = frozenset("\t\n ")
_NOT_COMMAND_NAMES: Final = RESERVED - {"time", "coproc", "[["}
"""Reserved words that cannot be a command's name. The three left out are commands for the grammar and for us."""


def parse_command(command: str) -> ParsedCommand:
    """What a command consists of. Never raises: what is not understood is said in `problem`."""
    if len(command) > MAX_BYTES:
        # Not cached: megabytes would be kept for an answer that costs nothing.
        return _refuse_too_long(command)
    return _parse_cached(command) if len(command) <= _MAX_CACHED_LENGTH else _parse_long_cached(command)


@lru_cache(maxsize=256)
def _parse_cached(command: str) -> ParsedCommand:
    # One call is parsed several times: for validation, permission and execution.
    return _parse(command)


@lru_cache(maxsize=8)
def _parse_long_cached(command: str) -> ParsedCommand:
    return _parse(command)


def clear_cache() -> None:
    """Empties the parse cache. For benchmarks: the next command is parsed anew."""
    _parse_cached.cache_clear()
    _parse_long_cached.cache_clear()


def _parse(command: str) -> ParsedCommand:
    parsed = _parse_once(command)
    if parsed.problem in {None, _TOO_LONG} or "\n" not in command:
        return parsed
    # The grammar takes some newlines for blanks, for instance after a pipeline of three; a semicolon it knows.
    line = join_lines(command)
    again = _parse_once(line) if line is not None else parsed
    return parsed if again.problem else replace(again, command=command)


def _parse_once(command: str) -> ParsedCommand:
    data = command.encode("utf-8", "surrogatepass")
    known: dict[str, Word] = {}
    if len(data) > MAX_BYTES:
        return _refuse_too_long(command)
    problem = _find_refused_character(command)
    root, tree_problem = tree.parse(data)
    problem = problem or tree_problem
    if root is None:
        return ParsedCommand(command, (), problem, plain=False)
    reading = parse_strictly(command, known) if problem is None else None
    walk = TreeWalk(command, data, known)
    walk.walk_program(root)
    parts = tuple(walk.parts)
    problem = problem or walk.problem or _find_bad_name(parts)
    if len(parts) > _MAX_PARTS:
        # All parts are kept for deny and ask rules: only what would allow the command stops here.
        problem = problem or f"it has more than {_MAX_PARTS} parts"
    if problem is None and not parts:
        problem = "there is no command in it"
    if problem is not None or reading is None:
        return ParsedCommand(command, parts, problem, plain=False)
    agreed = _agree(reading.commands, parts)
    if reading.plain and not agreed:
        return ParsedCommand(command, parts, "it can be read in two ways", plain=False)
    return ParsedCommand(command, parts, None, plain=reading.plain, agreed=agreed)


def _refuse_too_long(command: str) -> ParsedCommand:
    return ParsedCommand(command, (), _TOO_LONG, plain=False)


def _find_refused_character(command: str) -> str | None:
    if command.isascii() and command.isprintable():
        return None
    refused = {character for character in set(command) - _BLANKS if _is_refused(character)}
    if not refused:
        return None
    first = next(character for character in command if character in refused)
    return f"it holds the character U+{ord(first):04X}"


def _is_refused(character: str) -> bool:
    return unicodedata.category(character) in _REFUSED_CATEGORIES or character in _FILLERS


def _find_bad_name(parts: tuple[SimpleCommand, ...]) -> str | None:
    for part in parts:
        first = part.tokens[0].source if part.tokens else ""
        if first in _NOT_COMMAND_NAMES:
            return f"the reserved word {first} stands where a command should be"
        if "=" in first and ASSIGNMENT.match(first):
            return f"the assignment {first} stands where a command should be"
    return None


def _agree(commands: list[PlainCommand], parts: tuple[SimpleCommand, ...]) -> bool:
    return len(commands) == len(parts) and all(map(_is_same, commands, parts))


def _is_same(command: PlainCommand, part: SimpleCommand) -> bool:
    if tuple(command.words) != part.tokens and _strip_sources(command.words) != _strip_sources(part.tokens):
        return False
    mine = [_strip_redirection(*found) for found in command.redirections]
    return mine == [_strip_redirection(found.fd, found.operator, found.target) for found in part.redirections]


def _strip_redirection(fd: str, operator: str, target: Word) -> tuple[str, ...]:
    ((text, kind),) = _strip_sources([target])
    # The tree leaves out with what blanks the text of a here-document begins.
    return fd, operator, text.strip() if operator in {"<<", "<<-"} else text, kind


def _strip_sources(words: Iterable[Word]) -> list[tuple[str, str]]:
    # Of what is known only at run time nothing but the source can be compared.
    return [(word.source if word.kind == "unknown" else word.text, word.kind) for word in words]
