"""Where a path really leads, and whether it stays inside the folders that the person chose."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from ostler.protocol.ids import CallId
from ostler.tools.context import Surroundings

_O_PATH: Final = getattr(os, "O_PATH", 0)  # Linux: names a file without opening it
_MAX_BYTES: Final = 4_096
"""Of a path, with the NUL at its end: Linux takes no longer one, and others take less."""
_MAX_ARGUMENT: Final = 128 * 1024
"""No program can be told a longer name than this, so that of one only the beginning matters."""
_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""


def flaw(path: str) -> str | None:
    """Why this cannot be the path of a file, in words for the model."""
    return malformed(path) or too_long(path)


def malformed(path: str) -> str | None:
    """The same without its length, for who has more to say of a path than that."""
    if "\0" in path:
        return "The path holds a NUL byte."
    if path.startswith("result://"):
        return f"{path[:100]} is a persisted result, which this tool cannot open."
    if not os.path.isabs(path):
        return f"The path {path[:200]!r} is relative: give it absolute, from / on."
    return None


def too_long(path: str) -> str | None:
    """The same for its length alone, whatever kind of path it is."""
    if not _is_long(path):
        return None
    return f"The path {path[:200] + '…'!r} cannot be read or written: File name too long ({_MAX_BYTES} bytes or more)."


def _is_long(path: str) -> bool:
    # A byte of a name that is not UTF-8 is one character here, and one `?` when it is replaced.
    return len(path) >= _MAX_BYTES or len(path.encode("utf-8", "replace")) >= _MAX_BYTES


def real(path: str) -> str:
    """The path after all links; what does not exist yet, or may not be looked at, keeps its name."""
    if _is_long(path):
        return _real_in_part(path)
    try:
        return _asked_of_the_kernel(path) or os.path.realpath(path)
    except OSError:  # a link that may not be read, as that of another's process
        return written(path)


def _real_in_part(path: str) -> str:
    """Of a path that the kernel refuses: what can be looked at of it is, once, and the rest keeps its name."""
    path = path[:_MAX_ARGUMENT]
    fits = path.encode("utf-8", "surrogatepass")[: _MAX_BYTES - 1].rpartition(b"/")[0].decode("utf-8", "surrogatepass")
    rest = path[len(fits) :].lstrip("/")
    if ".." in rest.split("/"):
        # Behind a link that leads elsewhere than the names say: inside no folder, so that somebody is asked.
        return "/"
    return written(os.path.join(real(fits or "/"), rest))


def _asked_of_the_kernel(path: str) -> str | None:
    """The same in a few microseconds instead of a look at each component; None where the kernel does not tell."""
    if not _O_PATH:
        return None
    try:
        descriptor = os.open(path, _O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # One that was just deleted, or is on no file system of ours, has a name that only looks like a path.
    return place if place.startswith("/") and not place.endswith(" (deleted)") else None


def written(path: str) -> str:
    """The path as it was given, without `.`, `..` and doubled slashes."""
    return "/" + os.path.normpath(path[:_MAX_ARGUMENT]).lstrip("/")


def inside(path: str, folder: str) -> bool:
    """By component: `/home/ab` is not inside `/home/a`. Both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


Real = Callable[[str], str]
"""How a real path is found: `real`, which may wait for a disk, or `at_once.real`, which raises WouldWait instead."""


def inside_any(path: str, folders: Iterable[str], real: Real = real) -> bool:
    return any(inside(path, real(folder)) for folder in folders)


def inside_roots(path: str, surroundings: Surroundings, real: Real = real) -> bool:
    if surroundings.real_roots is not None:
        return any(inside(path, root) for root in surroundings.real_roots)
    return inside_any(path, surroundings.roots, real)


def of_the_daemon(path: str, surroundings: Surroundings, real: Real = real) -> bool:
    """The daemon's own folder holds its token and everybody's sessions."""
    if surroundings.real_home is not None:
        return inside(path, surroundings.real_home)
    return bool(surroundings.home) and inside(path, real(surroundings.home))


def shown(path: str, folder: str) -> str:
    """The path as people and models read it: from the folder on where it is inside."""
    relative = os.path.relpath(path, folder) if inside(path, folder) else path
    return printable(relative)


def shortened(path: str) -> str:
    """For a line about a call that nobody has looked at yet: no path that can be used is cut."""
    return path if len(path) < _MAX_BYTES else f"{path[:200]}…"


def printable(name: str) -> str:
    """A name that is not UTF-8 on the disk can be shown, but not written to JSON."""
    return os.fsencode(name).decode("utf-8", "replace")


class Approved:
    """Where a path led when its permission was checked, so that a link planted afterwards leads nowhere."""

    def __init__(self) -> None:
        self._places: OrderedDict[CallId, str] = OrderedDict()

    def note(self, call_id: CallId, place: str) -> None:
        self._places[call_id] = place
        self._places.move_to_end(call_id)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)

    def moved(self, call_id: CallId, place: str) -> bool:
        """Whether the path leads elsewhere now. A call that was checked by an earlier daemon has no note."""
        return self._places.pop(call_id, place) != place
