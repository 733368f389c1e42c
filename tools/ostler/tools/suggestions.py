"""Names close to one that is not there."""

import os
from itertools import islice
from typing import Final

from ostler.tools.paths import printable

_LOOKED_AT: Final = 10_000
_TOLD: Final = 3


def missing_file(path: str) -> str:
    """Words for the model about a path that does not exist. Touches the disk."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    if not os.path.isdir(folder):
        return f"The file {path} does not exist, nor does its folder. {_nearest_folder(folder)}"
    close = close_names(name, folder)
    hint = f" Close to it: {', '.join(os.path.join(folder, each) for each in close)}." if close else ""
    return f"The file {path} does not exist.{hint}"


def close_names(name: str, folder: str) -> list[str]:
    """What the folder holds that looks like the name, the closest first."""
    # Most calls never get here, and the library takes as long to load as a call to run.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return []
    found = process.extract(
        name, names, scorer=fuzz.ratio, processor=utils.default_process, limit=_TOLD, score_cutoff=60
    )
    return [printable(close) for close, _, _ in found]


def _nearest_folder(folder: str) -> str:
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return f"The nearest folder that exists is {folder}."
