"""Recognises commands that delete, overwrite, send or end something for good. The table is destructive.toml."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from itertools import pairwise
from typing import Any, Final

from ostler.tools.commands.safety.program_table import load_toml
from ostler.tools.commands.safety.wrappers import is_fully_resolved, unwrap_all
from ostler.tools.commands.syntax.parsed import ParsedCommand, Redirection, SimpleCommand

_MAX_INSIDE: Final = 1_000
_MAX_WORDS: Final = 3
"""Of a name in the table."""
_UNKNOWN_WORD: Final = "?"
"""Replaces a word that is known only at run time: it equals none in the table."""
_HARMLESS_TARGETS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/")


def is_destructive(parsed: ParsedCommand) -> bool:
    """Whether any part of it, wrapped ones too, does what cannot be undone.

    What is not understood, and a program that is known only at run time, may do anything: a person should look twice.
    An argument that is known only at run time makes no program destructive.
    """
    if not is_fully_resolved(parsed):
        return True
    inside = unwrap_all(parsed)
    return len(inside) > _MAX_INSIDE or any(map(_is_destructive_part, inside))


@dataclass(frozen=True, slots=True)
class _Table:
    always: frozenset[str]
    only_with: Mapping[str, re.Pattern[str]]
    unless: Mapping[str, re.Pattern[str]]


@cache
def _load_table() -> _Table:
    found = load_toml("destructive.toml")
    own = found["powershell"]
    return _Table(
        frozenset((*found["always"], *own["always"])),
        _compile_patterns({**found["with"], **own["with"]}),
        _compile_patterns(found["unless"]),
    )


def _compile_patterns(entries: Mapping[str, Any]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile("|".join(map(translate, words))) for name, words in entries.items()}


def _is_destructive_part(part: SimpleCommand) -> bool:
    if any(map(_overwrites, part.redirections)):
        return True
    if not part.tokens or part.words[0] is None:
        return False
    words = [_UNKNOWN_WORD if word is None else word for word in part.words]
    table = _load_table()
    names = [" ".join(words[:size]) for size in range(1, min(len(words), _MAX_WORDS) + 1)]
    if not any(name in table.always or _has_word(table.only_with.get(name), words) for name in names):
        return False
    return not any(_has_word(table.unless.get(name), words) for name in names)


def _has_word(wanted: re.Pattern[str] | None, words: Sequence[str]) -> bool:
    """Whether one of the words after the program's name, or two in a row, matches."""
    if wanted is None:
        return False
    behind = words[1:]
    return any(map(wanted.match, behind)) or any(wanted.match(f"{one} {next_}") for one, next_ in pairwise(behind))


def _overwrites(found: Redirection) -> bool:
    """`>` truncates the file, `>>` does not."""
    appends = found.operator.endswith(">>") or found.operator == "<>"
    return found.writes and not appends and not found.target.text.startswith(_HARMLESS_TARGETS)
