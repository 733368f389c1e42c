"""The tables of programs that run others: how their own arguments end, and where what they run begins."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ostler.tools.commands.syntax.parsed import SimpleCommand


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a wrapper's own arguments end and the command inside begins."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    """Options whose value is a command line."""
    operands: int = 0
    harmless: bool = False
    numbers: bool = False
    assignments: bool = False
    joins: bool = False
    """Its words are joined to a line that a shell parses."""
    appends: bool = False
    """It appends words of its own to the command."""
    first_is_text: bool = False
    alias: bool = False
    splits: frozenset[str] = frozenset()
    """Options whose value is split into words, which stand before the rest of its own."""
    names: frozenset[str] = frozenset()
    """Options with which its operands are only names."""
    shell: bool = False
    """Without a command it starts a shell."""
    data: bool = False
    """Its other words are data."""
    code: frozenset[str] = frozenset()
    """Options whose value is a program in a language of its own."""
    first_is_code: bool = False
    language: str = ""
    """How to tell code that plainly runs nothing."""
    files: frozenset[str] = frozenset()
    """Options whose value is a file of code."""
    modules: frozenset[str] = frozenset()
    """Options after which a program's name and its arguments stand."""
    script: bool = False
    """Its first operand is a file of code."""
    stdin: bool = False
    """Without an operand it runs what it reads."""
    keys: bool = False
    """With one, too: its input is keys that somebody could have pressed."""
    exposes: bool = False
    """Where its command begins is not known for sure: any word may be a program's name."""
    bundle_first: bool = False
    """Its first word may be a bundle of options without the dash."""
    hides: frozenset[str] = frozenset()
    """Words with which it runs what cannot be seen; `*`: always."""
    unless: frozenset[str] = frozenset()
    """Words with which it runs nothing."""


def load_toml(name: str) -> dict[str, Any]:
    """One of the package's TOML files."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


@cache
def load_wrappers() -> dict[str, Wrapper]:
    """The wrappers that are known, by name: they do nothing but run another command."""
    return {name: _build_wrapper(entry) for name, entry in load_toml("wrappers.toml").items()}


@cache
def load_runners() -> dict[str, Wrapper]:
    """Programs that run others beside their own work, by name, or by name and subcommand."""
    found = load_toml("runners.toml")
    entries = {name: _build_wrapper({**found.get(entry.get("like", ""), {}), **entry}) for name, entry in found.items()}
    return {alias: entries[name] for name, entry in found.items() for alias in (name, *entry.get("aliases", ()))}


def find_wrapper(part: SimpleCommand) -> tuple[Wrapper, int] | None:
    """The entry for a command, and how many of its words name it."""
    name = part.words[0] if part.words else None
    if name is None:
        return None
    found = _find_subcommand(name, part.words)
    if found is not None:
        return found
    for each in (name, name.rstrip("0123456789.-")):
        wrapper = load_wrappers().get(each) or load_runners().get(each)
        if wrapper is not None:
            return wrapper, 1
    return None


def _build_wrapper(entry: dict[str, Any]) -> Wrapper:
    given: dict[str, Any] = {
        key: frozenset(value) if isinstance(value, list) else value
        for key, value in entry.items()
        if key not in {"like", "aliases"}
    }
    return Wrapper(**given)


@cache
def _load_subcommands() -> dict[str, list[tuple[str, ...]]]:
    """By program the further words of the entries that have some, longest first."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for name in load_runners():
        program, *more = name.split(" ")
        if more:
            found.setdefault(program, []).append(tuple(more))
    return {program: sorted(each, key=len, reverse=True) for program, each in found.items()}


def _find_subcommand(name: str, words: tuple[str | None, ...]) -> tuple[Wrapper, int] | None:
    """The entry whose first word stands first; of several the longest."""
    best: tuple[int, tuple[str, ...], int] | None = None
    for more in _load_subcommands().get(name, ()):
        places = [0]
        for each in more:
            # Options of the program, which are not listed, may stand before its subcommand; git's are gone already.
            end = len(words) if name != "git" or len(places) > 1 else min(2, len(words))
            place = next((at for at in range(places[-1] + 1, end) if words[at] == each), 0)
            if not place:
                break
            places.append(place)
        else:
            if best is None or places[1] < best[0]:
                best = places[1], more, places[-1]
    return None if best is None else (load_runners()[f"{name} {' '.join(best[1])}"], best[2] + 1)
