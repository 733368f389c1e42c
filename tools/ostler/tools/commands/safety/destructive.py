"""Commands that delete, overwrite, send or end something for good. The table stands in destructive.toml."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from itertools import pairwise
from typing import Any, Final

from ostler.tools.commands.safety.program_table import data
from ostler.tools.commands.safety.wrappers import all_inside, all_resolved
from ostler.tools.commands.syntax.parsed import Part, Reading, Redirection

_MAX_INSIDE: Final = 1_000
_MAX_WORDS: Final = 3
"""Of a name in the table."""
_DECIDED_LATER: Final = "?"
"""Stands for a word that only the run tells: it is taken for none of the table's."""
_NOTHING_LOST: Final = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/")


def is_destructive(reading: Reading) -> bool:
    """Whether any part of it, wrapped ones too, does what cannot be undone.

    What is not understood, and a program that only the run tells, may do anything: a person should look twice. An
    argument that only the run tells makes no program worse than it is.
    """
    if not all_resolved(reading):
        return True
    inside = all_inside(reading)
    return len(inside) > _MAX_INSIDE or any(map(_loses_something, inside))


@dataclass(frozen=True, slots=True)
class _Table:
    always: frozenset[str]
    only_with: Mapping[str, re.Pattern[str]]
    unless: Mapping[str, re.Pattern[str]]


@cache
def _table() -> _Table:
    found = data("destructive.toml")
    own = found["powershell"]
    return _Table(
        frozenset((*found["always"], *own["always"])),
        _expressions({**found["with"], **own["with"]}),
        _expressions(found["unless"]),
    )


def _expressions(entries: Mapping[str, Any]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile("|".join(map(translate, words))) for name, words in entries.items()}


def _loses_something(part: Part) -> bool:
    if any(map(_overwrites, part.redirections)):
        return True
    if not part.tokens or part.words[0] is None:
        return False
    words = [_DECIDED_LATER if word is None else word for word in part.words]
    table = _table()
    names = [" ".join(words[:size]) for size in range(1, min(len(words), _MAX_WORDS) + 1)]
    if not any(name in table.always or _has(table.only_with.get(name), words) for name in names):
        return False
    return not any(_has(table.unless.get(name), words) for name in names)


def _has(wanted: re.Pattern[str] | None, words: Sequence[str]) -> bool:
    """Whether one of the words behind the program's name, or two in a row, is wanted."""
    if wanted is None:
        return False
    behind = words[1:]
    return any(map(wanted.match, behind)) or any(wanted.match(f"{one} {next_}") for one, next_ in pairwise(behind))


def _overwrites(found: Redirection) -> bool:
    """`>` begins the file anew, `>>` does not."""
    appends = found.operator.endswith(">>") or found.operator == "<>"
    return found.writes and not appends and not found.target.text.startswith(_NOTHING_LOST)
