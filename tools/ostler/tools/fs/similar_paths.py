"""Names close to one that is not there."""

import os
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.fs.paths import printable

_LOOKED_AT: Final = 10_000
_TOLD: Final = 3

Nameable: TypeAlias = Callable[[str], bool]
"""Whether a path may be named to the model."""


def missing_file(path: str, nameable: Nameable = lambda _: True) -> str:
    """Words for the model about a path that does not exist, or leads nowhere. Touches the disk."""
    target = _target(path)
    if target is not None:
        there = os.path.lexists(os.path.join(os.path.dirname(path), target))
        return f"{path} is a link to {printable(target)}, which {'leads nowhere' if there else 'does not exist'}."
    folder, name = os.path.split(path.rstrip("/") or "/")
    if not os.path.isdir(folder):
        return f"The file {path} does not exist, nor does its folder. {_nearest_folder(folder)}"
    close = close_names(name, folder, nameable)
    hint = f" Close to it: {', '.join(os.path.join(folder, each) for each in close)}." if close else ""
    return f"The file {path} does not exist.{hint}"


def known_to(surroundings: Surroundings, *, allowed: bool) -> Nameable:
    """What a session may hear of: what rules let it list, and, until somebody has allowed more, inside its folders."""

    def nameable(path: str) -> bool:
        place = paths.real(path)
        if paths.of_the_daemon(place, surroundings) or not (allowed or paths.inside_roots(place, surroundings)):
            return False
        return surroundings.may_read is None or (surroundings.may_read(path) and surroundings.may_read(place))

    return nameable


def close_names(name: str, folder: str, nameable: Nameable = lambda _: True) -> list[str]:
    """What the folder holds that looks like the name, the closest first."""
    # Most calls never get here, and the library takes as long to load as a call to run.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return []
    # All that are close: the closest may be one that cannot be named.
    found = process.extract(
        name, names, scorer=fuzz.ratio, processor=utils.default_process, limit=None, score_cutoff=60
    )
    # A link that leads nowhere is of no more use than the name that was given.
    useful = (close for close, _, _ in found if os.path.exists(at := os.path.join(folder, close)) and nameable(at))
    return [printable(close) for close in islice(useful, _TOLD)]


def _target(path: str) -> str | None:
    """What a link says; null for all that is none."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _nearest_folder(folder: str) -> str:
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return f"The nearest folder that exists is {folder}."
