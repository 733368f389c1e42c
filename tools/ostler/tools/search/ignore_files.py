"""What ignore files say of places that somebody names: those are searched all the same, however the rule is spelled."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ostler.tools.permissions.gitignore import BadPattern, translate

FILES: Final = (".gitignore", ".ignore", ".rgignore")
"""In the order in which ripgrep minds them, the strongest last."""
_OF_THE_REPOSITORY: Final = ".git/info/exclude"
_MAX_BYTES: Final = 256 * 1024
_ANYTHING: Final = "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
"""Stands for whatever lies in a folder: only a rule about all of it speaks of this name."""
# Not all of ripgrep's --no-ignore: what the named folder itself has to say counts.
WITHOUT_RULES_ABOVE: Final = ("--no-ignore-parent", "--no-ignore-exclude", "--no-ignore-global")


@dataclass(frozen=True, slots=True)
class _Rule:
    expression: re.Pattern[str]
    """Of the path from the folder on that the rule stands in."""
    ignores: bool
    folders_only: bool


def hides(place: str) -> bool:
    """Whether rules from above leave out this folder, or all that is in it. Blocks."""
    folders = [place]
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    above = [(folder, rules) for folder in reversed(folders[1:]) if (rules := list(_rules_in(folder)))]
    if not above:
        return False
    targets = [(folder, True) for folder in folders] + [(os.path.join(place, _ANYTHING), False)]
    return any(_is_ignored(target, above, is_folder=is_folder) for target, is_folder in targets)


def named_by_rules(names: Iterable[str], place: str, files: Iterable[str]) -> frozenset[str]:
    """Those of the names that a rule may be about, in these ignore files or in one above the place. Blocks."""
    parts = {part for file in [*files, *_above(place)] for line in _lines(file) for part in _parts(line)}
    patterns = [compiled for part in parts if (compiled := _compiled(part, anchored=True)) is not None]
    return frozenset(name for name in names if any(pattern.fullmatch(name) for pattern in patterns))


def _above(place: str) -> Iterator[str]:
    folder = place
    while True:
        yield from (os.path.join(folder, name) for name in (*FILES, _OF_THE_REPOSITORY))
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _parts(line: str) -> list[str]:
    """The names in a rule; `*` alone says nothing of a name, unless it is all there is."""
    parts = [part for part in line.removeprefix("!").split("/") if part]
    return [part for part in parts if part.strip("*")] or parts[-1:]


def _is_ignored(path: str, above: Sequence[tuple[str, list[_Rule]]], *, is_folder: bool) -> bool:
    """The last rule that speaks of it decides."""
    ignored = False
    for folder, rules in above:
        inside = f"{folder.rstrip('/')}/"
        if not path.startswith(inside):
            continue
        for rule in rules:
            if (is_folder or not rule.folders_only) and rule.expression.fullmatch(path, len(inside)):
                ignored = rule.ignores
    return ignored


def _rules_in(folder: str) -> Iterator[_Rule]:
    for name in (_OF_THE_REPOSITORY, *FILES):
        for line in _lines(os.path.join(folder, name)):
            body = line.removeprefix("!")
            expression = _compiled(body.removeprefix("/").removesuffix("/"), anchored="/" in body[:-1])
            if expression is not None:
                yield _Rule(expression, not line.startswith("!"), body.endswith("/"))


def _lines(file: str) -> list[str]:
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = (line if line.endswith("\\ ") else line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@lru_cache(maxsize=4_096)
def _compiled(pattern: str, *, anchored: bool) -> re.Pattern[str] | None:
    try:
        found = translate(pattern, anchored=anchored)
        rest = [found.expression] if found.expression else []
        return re.compile("/".join([*map(re.escape, found.literal), *rest]), re.DOTALL)
    except (BadPattern, re.error):
        return None  # git would never match it with anything either
