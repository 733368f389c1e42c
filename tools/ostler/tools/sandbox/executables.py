"""Finds programs on the search path, but never inside the session's folders, which a command can write to."""

import os
from collections.abc import Iterable
from typing import Final

from ostler.tools.fs import paths

_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def clean_path(path: str, roots: Iterable[str]) -> str:
    """A search path without relative and empty entries and without folders inside the roots, links followed."""
    real_roots = [paths.resolve_path(root) for root in roots]
    kept = [entry for entry in path.split(":") if os.path.isabs(entry) and not _is_inside(entry, real_roots)]
    # An empty search path means the current folder.
    return ":".join(kept) or _DEFAULT_PATH


def resolve_program(name: str, path: str, roots: Iterable[str]) -> str | None:
    """The absolute path of a program outside the roots, by itself and after all links; null where there is none."""
    real_roots = [paths.resolve_path(root) for root in roots]
    if "/" in name:
        return name if os.path.isabs(name) and _is_runnable(name, real_roots) else None
    places = (os.path.join(folder, name) for folder in clean_path(path, real_roots).split(":"))
    return next((place for place in places if name and _is_runnable(place, real_roots)), None)


def _is_runnable(place: str, roots: list[str]) -> bool:
    return os.path.isfile(place) and os.access(place, os.X_OK) and not _is_inside(place, roots)


def _is_inside(place: str, roots: list[str]) -> bool:
    seen = (paths.normalize_path(place), paths.resolve_path(place))
    return any(paths.is_inside(each, root) for each in seen for root in roots)
