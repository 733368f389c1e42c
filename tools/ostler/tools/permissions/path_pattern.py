"""Path patterns of rules: gitignore syntax, relative to a folder that the first characters choose.

`//x` is absolute, `~/x` below the home folder, `/x` below the folder that the settings belong to, `./x` below the
session's folder; anything else is read as in a `.gitignore` of the session's folder: a name alone matches at any depth.
What is below a folder that matches, matches too.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ostler.tools.permissions.case_sensitivity import is_case_insensitive
from ostler.tools.permissions.gitignore import BadPattern, Translation, translate

_MAX_LENGTH: Final = 4_096
_Start = Literal["/", "home", "settings", "cwd", "anywhere"]


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern; the folders that it starts from are there as written and as real paths."""

    content: str
    bases: tuple[str, ...]
    expression: str
    """What has to follow a base and a slash; empty where the base is the whole pattern."""
    needle: str
    folders_only: bool
    folds: bool

    def matches(self, path: str, *, folder: bool = False) -> bool:
        """Whether an absolute, normalised path matches, or a folder above it; `folder`: the path may be a folder."""
        if self.folds:
            path = _fold_case(path)
        if self.needle not in path:
            return False
        return any(path.startswith(base) and self._matches_below(path, len(base), folder) for base in self.bases)

    def _matches_below(self, path: str, size: int, folder: bool) -> bool:
        if not self.expression:
            return path[size : size + 1] == "/" or (len(path) == size and (folder or not self.folders_only))
        if path[size : size + 1] != "/":
            return False
        found = _compile(self.expression, self.folds).match(path, size + 1)
        return found is not None and (found.end() < len(path) or folder or not self.folders_only)


def compile_path(
    content: str,
    *,
    settings_root: str,
    cwd: str,
    home: str,
    through_links: bool = False,
    also_below: str | None = None,
    folds: bool | None = None,
    real: Callable[[str], str] = os.path.realpath,
) -> PathPattern:
    """The pattern, ready to match; `BadPattern` where it can match nothing. Touches the disk.

    `through_links`: names that the pattern spells out are followed where they are links. That is for rules that forbid;
    a rule that allows must not follow a link that somebody planted. `also_below`: a pattern without a start
    is relative to this folder too. `real`: a `RealPathCache` for many patterns at once.
    """
    start, up, found = _parse(content)
    folder = {"/": "/", "home": home, "settings": settings_root}.get(start, cwd)
    needle = found.needle
    folders = (folder, also_below) if start == "anywhere" and also_below else (folder,)
    places = {_go_up(path, up): None for each in folders for path in (each, real(each))}
    bases = {_join(place, found.literal): None for place in places}
    if through_links:
        bases |= {_join(real(base or "/"), ()): None for base in tuple(bases)}
    folded = is_case_insensitive(next(iter(places))) if folds is None else folds
    if folded:
        bases, needle = {_fold_case(base): None for base in bases}, _fold_case(needle)
    return PathPattern(content, tuple(bases), found.expression, needle, found.folders_only, folded)


def check_pattern(content: str) -> None:
    """Raises `BadPattern` where the pattern cannot be compiled."""
    _parse(content)


def covers_everything(content: str) -> bool:
    """Whether all of the folder that the pattern starts from matches, in whatever spelling."""
    _, cut = _parse_start(content)
    return not content[cut:].replace("../", "").strip("*/")


def build_exact_pattern(path: str) -> str:
    """The content that matches only this absolute path and what is below it."""
    return "/" + re.sub(r"[*?\[\\!#{]|\s", r"\\\g<0>", path)


def matches_either(pattern: PathPattern, written: str, real: str) -> bool:
    """For rules that forbid: one of the path as written and its real path is enough, and it may be a folder."""
    return pattern.matches(written, folder=True) or (real != written and pattern.matches(real, folder=True))


def matches_both(pattern: PathPattern, written: str, real: str) -> bool:
    """For rules that allow: the path as written and its real path have to match."""
    return pattern.matches(written) and (real == written or pattern.matches(real))


@lru_cache(maxsize=16_384)
def _parse(content: str) -> tuple[_Start, int, Translation]:
    """Where the pattern starts, how many folders above that, and its translation."""
    if len(content) > _MAX_LENGTH:
        raise BadPattern(f"The pattern has more than {_MAX_LENGTH} characters.")
    if content.startswith("!"):
        raise BadPattern("A pattern cannot be negated: write a rule of the other kind, or \\! for a name.")
    if content.startswith("$") or re.match(r"~[^/]", content):
        raise BadPattern("Variables and other people's homes are not filled in: write ~/… or //…, or a \\ in front.")
    start, cut = _parse_start(content)
    rest = content[cut:]
    anchored = cut > 0
    up = 0
    while start != "/" and (rest == ".." or rest.startswith("../")):
        up, anchored = up + 1, True
        cut, rest = cut + len(rest[:3]), rest[3:]
    try:
        return start, up, translate(rest, anchored=anchored)
    except BadPattern as error:
        raise BadPattern(str(error), cut + error.position) from None


def _parse_start(content: str) -> tuple[_Start, int]:
    if content.startswith("//"):
        return "/", 2
    if content == "~" or content.startswith("~/"):
        return "home", 2
    if content.startswith("/"):
        return "settings", 1
    if content == "." or content.startswith("./"):
        return "cwd", 2
    return "anywhere", 0


@lru_cache(maxsize=16_384)
def _compile(expression: str, folds: bool) -> re.Pattern[str]:
    """Done only for a path that could match: compiling costs more than all the rest of loading a rule."""
    text = unicodedata.normalize("NFC", expression) if folds else expression
    # The lookahead keeps `ab` from matching `abc`; what is below counts.
    return re.compile(rf"(?:{text})(?=/|\Z)", re.DOTALL | (re.IGNORECASE if folds else 0))


def _go_up(folder: str, steps: int) -> str:
    for _ in range(steps):
        folder = os.path.dirname(folder)
    return folder


def _join(place: str, names: tuple[str, ...]) -> str:
    """Without a slash at the end, so that the root is the empty text."""
    return "/".join([place.rstrip("/"), *names])


def _fold_case(path: str) -> str:
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).lower()
