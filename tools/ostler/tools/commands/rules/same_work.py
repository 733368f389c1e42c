"""Finds commands that do the work of another program: a rule about `rm` asks about `find -delete`, too."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from typing import Final

from ostler.tools.commands.inner.wrapper_table import load_toml
from ostler.tools.commands.syntax.parsed import SimpleCommand

_MAX_WORDS: Final = 3
"""Of a name in the table."""


@dataclass(frozen=True, slots=True)
class _Table:
    always: Mapping[str, tuple[str, ...]]
    """By a command's first words, the programs whose work it does."""
    only_with: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]]


@cache
def _load_table() -> _Table:
    always: dict[str, list[str]] = {}
    only_with: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for program, entry in load_toml("inner_programs.toml")["same"].items():
        for name in entry["always"]:
            always.setdefault(name, []).append(program)
        for name, words in entry["with"].items():
            only_with.setdefault(name, []).append((re.compile("|".join(map(translate, words))), program))
    return _Table(
        {name: tuple(found) for name, found in always.items()},
        {name: tuple(found) for name, found in only_with.items()},
    )


def list_same_work(parts: Iterable[SimpleCommand], names: Iterable[str | None] = ()) -> frozenset[str]:
    """The programs whose work one of these commands, or one of the programs with these names, does by other means."""
    table = _load_table()
    found = {program for part in parts if part.tokens for program in _list_for_part(part)}
    return frozenset(found.union(*(table.always.get(name or "", ()) for name in names)))


def _list_for_part(part: SimpleCommand) -> Iterable[str]:
    table = _load_table()
    words = [word or "" for word in part.words[:_MAX_WORDS]]
    for size in range(1, len(words) + 1):
        name = " ".join(words[:size])
        yield from table.always.get(name, ())
        for pattern, program in table.only_with.get(name, ()):
            if any(word is not None and pattern.match(word) for word in part.words[1:]):
                yield program
