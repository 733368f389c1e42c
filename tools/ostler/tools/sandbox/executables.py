"""Where a program is looked for: never where the command's own folders could answer."""

import os
from collections.abc import Iterable
from typing import Final

from ostler.tools.fs import paths

_USUAL: Final = "/usr/local/bin:/usr/bin:/bin"


def clean_path(path: str, roots: Iterable[str]) -> str:
    """A search path without relative and empty entries and without folders inside the roots, links followed."""
    real_roots = [paths.real(root) for root in roots]
    kept = [entry for entry in path.split(":") if os.path.isabs(entry) and not _inside(entry, real_roots)]
    # An empty search path means the current folder.
    return ":".join(kept) or _USUAL


def resolve_program(name: str, path: str, roots: Iterable[str]) -> str | None:
    """The absolute path of a program outside the roots, by itself and after all links; null where there is none."""
    real_roots = [paths.real(root) for root in roots]
    if "/" in name:
        return name if os.path.isabs(name) and _runs(name, real_roots) else None
    places = (os.path.join(folder, name) for folder in clean_path(path, real_roots).split(":"))
    return next((place for place in places if name and _runs(place, real_roots)), None)


def _runs(place: str, roots: list[str]) -> bool:
    return os.path.isfile(place) and os.access(place, os.X_OK) and not _inside(place, roots)


def _inside(place: str, roots: list[str]) -> bool:
    seen = (paths.written(place), paths.real(place))
    return any(paths.inside(each, root) for each in seen for root in roots)
