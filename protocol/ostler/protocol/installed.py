"""What is installed beside us, by the names of folders: `importlib.metadata` takes 10 ms to import, and a start waits.

It is asked where the folders leave a question open, and where they say that there is something to load.
"""

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Final

_METADATA: Final = (".dist-info", ".egg-info")
_PLUGIN_LOADER: Final = "pydantic.plugin._loader"


def find_version(package: str) -> str | None:
    """The installed version of a package whose name is one word; None where that cannot be seen."""
    for _, name in _list_metadata():
        if name.startswith(f"{package}-") and name.endswith(".dist-info"):
            return name.removesuffix(".dist-info").removeprefix(f"{package}-")
    return None


def may_have_entry_points(group: str) -> bool:
    """Whether any package that is installed may have something to load in this group; False is certain."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True  # somebody else's way of finding packages
    if any(os.path.isfile(place) for place in sys.path):
        return True  # a zip file
    return any(_names_group(os.path.join(*each, "entry_points.txt"), group) for each in _list_metadata())


def skip_model_plugins() -> None:
    """Keep pydantic from looking for plug-ins of its own in all that is installed: the daemon uses none.

    An empty module stands in the place of its loader.
    Should that have another name one day, all that is lost is time.
    """
    stand_in = ModuleType(_PLUGIN_LOADER)
    setattr(stand_in, "get_plugins", tuple)  # noqa: B010 - a module of theirs, which has no such attribute yet
    sys.modules.setdefault(_PLUGIN_LOADER, stand_in)


def _list_metadata() -> Iterator[tuple[str, str]]:
    """The folders with what is known of each package: the folder that holds it, and its name."""
    for place in sys.path:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        yield from ((place, name) for name in names if name.endswith(_METADATA))


def _names_group(path: str, group: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return f"[{group}]" in file.read()
    except OSError:
        return False
