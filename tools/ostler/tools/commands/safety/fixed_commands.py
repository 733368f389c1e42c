"""Whole commands that only say something: a version, help, what the shell itself knows."""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from ostler.tools.commands.safety.program_table import load_toml

MAX_FIXED_WORDS: Final = 6
_MAX_LEVELS: Final = 64
_MAX_BYTES: Final = 256 * 1024
_OTHER_KEYS: Final = frozenset({"unless", "lines"})


@cache
def load_fixed_commands() -> dict[tuple[str, ...], tuple[str, ...]]:
    """The commands by their words, each with the files that choose what it runs."""
    table = load_toml("fixed_commands.toml")
    # One tuple for each group: there are hundreds of commands.
    shims = tuple(table.pop("shims")["unless"])
    return {
        words: choosers
        for group in table.values()
        for choosers in [(*shims, *group.get("unless", ()))]
        for words in _list_commands(group)
    }


def _list_commands(group: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(line.split()) for line in group.get("lines", ()))
    for flag, programs in group.items():
        if flag not in _OTHER_KEYS:
            yield from ((program, flag) for program in programs)


def find_choosers(words: tuple[str | None, ...]) -> tuple[str, ...] | None:
    """The files that choose what a fixed command runs; None where it is none of them."""
    return load_fixed_commands().get(words)  # type: ignore[arg-type]  # a word that is not known is in no key


def find_chooser(choosers: Sequence[str], folder: str) -> str | None:
    """The first of the files in a folder, or in one above it, that chooses what a program runs. Blocks."""
    here = os.path.realpath(folder)
    for _ in range(_MAX_LEVELS):
        for chooser in choosers:
            name, _, text = chooser.partition("~")
            path = os.path.join(here, name)
            if os.path.lexists(path) and (not text or _may_hold(path, text)):
                return path
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return folder


def _may_hold(path: str, text: str) -> bool:
    try:
        if not os.path.isfile(path) or os.stat(path).st_size > _MAX_BYTES:
            return True
        with open(path, "rb") as file:
            return text.encode() in file.read(_MAX_BYTES)
    except OSError:
        return True
