"""Suggests similar names for a path that does not exist."""

import os
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.fs.paths import make_printable
from ostler.tools.spelling import find_close

_MAX_ENTRIES: Final = 10_000
_MAX_SUGGESTIONS: Final = 3

PathFilter: TypeAlias = Callable[[str], bool]
"""Whether a path may be named to the model."""


def describe_missing(path: str, nameable: PathFilter = lambda _: True) -> str:
    """The message for the model about a path that does not exist, or is a dangling link. Reads the disk."""
    target = _read_link(path)
    if target is not None:
        there = os.path.lexists(os.path.join(os.path.dirname(path), target))
        return f"{path} is a link to {make_printable(target)}, which {'leads nowhere' if there else 'does not exist'}."
    folder, name = os.path.split(path.rstrip("/") or "/")
    if not os.path.isdir(folder):
        return f"The file {path} does not exist, nor does its folder. {_describe_nearest_folder(folder)}"
    close = find_close_names(name, folder, nameable)
    hint = f" Close to it: {', '.join(os.path.join(folder, each) for each in close)}." if close else ""
    return f"The file {path} does not exist.{hint}"


def build_path_filter(surroundings: SessionView, *, allowed: bool) -> PathFilter:
    """A filter for paths to tell a session: those that rules let it list, and, unless `allowed`, inside its roots."""

    def nameable(path: str) -> bool:
        place = paths.resolve_path(path)
        if paths.is_in_daemon_home(place, surroundings) or not (allowed or paths.is_inside_roots(place, surroundings)):
            return False
        return surroundings.may_read is None or (surroundings.may_read(path) and surroundings.may_read(place))

    return nameable


def find_close_names(name: str, folder: str, nameable: PathFilter = lambda _: True) -> list[str]:
    """The entries of the folder that look like the name, the closest first."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
    except OSError:
        return []
    # All that are close: the closest may be one that the model may not be told.
    found = find_close(name, names, None)
    # A dangling link is of no more use than the name that was given.
    useful = (close for close in found if os.path.exists(at := os.path.join(folder, close)) and nameable(at))
    return [make_printable(close) for close in islice(useful, _MAX_SUGGESTIONS)]


def _read_link(path: str) -> str | None:
    """The target of a link; None for what is no link."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _describe_nearest_folder(folder: str) -> str:
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return f"The nearest folder that exists is {folder}."
