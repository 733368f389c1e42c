"""Rules of ignore files, such as .gitignore, that match what a search names: that is searched all the same."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ostler.tools.fs.regular_file import NotRegular, read_regular_file
from ostler.tools.permissions.gitignore import BadPattern, translate

FILES: Final = (".gitignore", ".ignore", ".rgignore")
"""In ripgrep's order of precedence, the strongest last."""
_REPOSITORY_EXCLUDE: Final = ".git/info/exclude"
_MAX_BYTES: Final = 256 * 1024
_ANY_NAME: Final = "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
"""Stands for any file in a folder: only a rule about the whole folder matches this name."""
# Not all of ripgrep's --no-ignore: the ignore files in the named folder itself still apply.
WITHOUT_RULES_ABOVE: Final = ("--no-ignore-parent", "--no-ignore-exclude", "--no-ignore-global")


@dataclass(frozen=True, slots=True)
class _Rule:
    expression: re.Pattern[str]
    """Matches a path relative to the folder of the ignore file."""
    ignores: bool
    folders_only: bool


def is_hidden(place: str) -> bool:
    """Whether ignore files in parent folders exclude this folder, or all that is in it. Blocks."""
    folders = [place]
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    above = [(folder, rules) for folder in reversed(folders[1:]) if (rules := list(_read_rules(folder)))]
    if not above:
        return False
    targets = [(folder, True) for folder in folders] + [(os.path.join(place, _ANY_NAME), False)]
    return any(_is_ignored(target, above, is_folder=is_folder) for target, is_folder in targets)


def match_names(names: Iterable[str], place: str, files: Iterable[str]) -> frozenset[str]:
    """Those of the names that a rule may match, in these ignore files or in one of a parent folder. Blocks."""
    parts = {
        part
        for file in [*files, *_list_ignore_files(place)]
        for line in _read_lines(file)
        for part in _split_rule(line)
    }
    patterns = [compiled for part in parts if (compiled := _compile_rule(part, anchored=True)) is not None]
    return frozenset(name for name in names if any(pattern.fullmatch(name) for pattern in patterns))


def _list_ignore_files(place: str) -> Iterator[str]:
    folder = place
    while True:
        yield from (os.path.join(folder, name) for name in (*FILES, _REPOSITORY_EXCLUDE))
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _split_rule(line: str) -> list[str]:
    """The names in a rule; a component `*` is left out, unless it is the only one."""
    parts = [part for part in line.removeprefix("!").split("/") if part]
    return [part for part in parts if part.strip("*")] or parts[-1:]


def _is_ignored(path: str, above: Sequence[tuple[str, list[_Rule]]], *, is_folder: bool) -> bool:
    """The last rule that matches decides."""
    ignored = False
    for folder, rules in above:
        inside = f"{folder.rstrip('/')}/"
        if not path.startswith(inside):
            continue
        for rule in rules:
            if (is_folder or not rule.folders_only) and rule.expression.fullmatch(path, len(inside)):
                ignored = rule.ignores
    return ignored


def _read_rules(folder: str) -> Iterator[_Rule]:
    for name in (_REPOSITORY_EXCLUDE, *FILES):
        for line in _read_lines(os.path.join(folder, name)):
            body = line.removeprefix("!")
            expression = _compile_rule(body.removeprefix("/").removesuffix("/"), anchored="/" in body[:-1])
            if expression is not None:
                yield _Rule(expression, not line.startswith("!"), body.endswith("/"))


def _read_lines(file: str) -> list[str]:
    try:
        text = read_regular_file(file, _MAX_BYTES).decode("utf-8", "replace")
    except (NotRegular, OSError):
        return []
    lines = (line if line.endswith("\\ ") else line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@lru_cache(maxsize=4_096)
def _compile_rule(pattern: str, *, anchored: bool) -> re.Pattern[str] | None:
    try:
        found = translate(pattern, anchored=anchored)
        rest = [found.expression] if found.expression else []
        return re.compile("/".join([*map(re.escape, found.literal), *rest]), re.DOTALL)
    except (BadPattern, re.error):
        return None  # git would never match it with anything either
