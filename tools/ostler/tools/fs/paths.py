"""Checks, normalises and resolves paths, and tells whether one is inside the session's folders."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ostler.protocol.ids import CallId

_O_PATH: Final = getattr(os, "O_PATH", 0)  # Linux: names a file without opening it
_MAX_BYTES: Final = 4_096
"""Of a path, with the NUL at its end: Linux takes no longer one, and others take less."""
_MAX_ARGUMENT: Final = 128 * 1024
"""No program can be given a longer argument than this, so that of a longer path only the beginning matters."""
_MAX_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""


def check_path(path: str) -> str | None:
    """Why this cannot be the path of a file, in words for the model."""
    return check_form(path) or check_length(path)


def check_form(path: str) -> str | None:
    """The same without the check of its length, for callers that report that in another way."""
    if "\0" in path:
        return "The path holds a NUL byte."
    if path.startswith("result://"):
        return f"{path[:100]} is a persisted result, which this tool cannot open."
    if not os.path.isabs(path):
        return f"The path {path[:200]!r} is relative: give it absolute, from / on."
    return None


def check_length(path: str) -> str | None:
    """The same for its length alone, also for relative paths."""
    if not _is_long(path):
        return None
    return f"The path {path[:200] + '…'!r} cannot be read or written: File name too long ({_MAX_BYTES} bytes or more)."


def _is_long(path: str) -> bool:
    # A byte of a name that is not UTF-8 is one character here, and one `?` when it is replaced.
    return len(path) >= _MAX_BYTES or len(path.encode("utf-8", "replace")) >= _MAX_BYTES


def resolve_path(path: str) -> str:
    """The path with all links resolved; what does not exist yet, or may not be read, keeps its name."""
    if _is_long(path):
        return _resolve_long_path(path)
    try:
        return _resolve_by_kernel(path) or _resolve_new_name(path) or os.path.realpath(path)
    except OSError:  # a link that may not be read, as in /proc of another user's process
        return normalize_path(path)


def _resolve_long_path(path: str) -> str:
    """Of a path too long for the kernel: the part that fits is resolved, once, and the rest keeps its name."""
    path = path[:_MAX_ARGUMENT]
    fits = path.encode("utf-8", "surrogatepass")[: _MAX_BYTES - 1].rpartition(b"/")[0].decode("utf-8", "surrogatepass")
    rest = path[len(fits) :].lstrip("/")
    if ".." in rest.split("/"):
        # After a link, `..` may lead elsewhere than the names say: inside no folder, so that a person is asked.
        return "/"
    return normalize_path(os.path.join(resolve_path(fits or "/"), rest))


def _resolve_by_kernel(path: str) -> str | None:
    """The same in a few microseconds, by `/proc/self/fd`, not component by component; None where that fails."""
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


def _resolve_new_name(path: str) -> str | None:
    """The same for a name that is not there yet, in a folder that is; None for anything else."""
    folder, _, name = path.rpartition("/")
    if name in {"", ".", ".."} or not folder.startswith("/"):
        return None
    place = _resolve_by_kernel(folder)
    # `/dev/fd/3/x`: what is no folder keeps the name that was given.
    if place is None or not os.path.isdir(place):
        return None
    new = os.path.join(place, name)
    return None if os.path.lexists(new) else new


def normalize_path(path: str) -> str:
    """The path as it was given, without `.`, `..` and doubled slashes."""
    return "/" + os.path.normpath(path[:_MAX_ARGUMENT]).lstrip("/")


def is_inside(path: str, folder: str) -> bool:
    """By component: `/home/ab` is not inside `/home/a`. Both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


PathResolver = Callable[[str], str]
"""How a path is resolved: `resolve_path`, which may wait for a disk, or that of cached_io, which raises WouldBlock."""


def is_inside_any(path: str, folders: Iterable[str], real: PathResolver = resolve_path) -> bool:
    return any(is_inside(path, real(folder)) for folder in folders)


_MAX_LEVELS: Final = 64


def find_repository_folder(folder: str) -> str | None:
    """The nearest folder with a `.git`, which git need be asked about; None where there is none. Blocks."""
    here = folder
    for _ in range(_MAX_LEVELS):
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return None


class SessionFolders(Protocol):
    """The folders of a session, as far as they decide what may be touched."""

    @property
    def roots(self) -> tuple[str, ...]: ...
    @property
    def real_roots(self) -> tuple[str, ...] | None: ...
    @property
    def home(self) -> str: ...
    @property
    def real_home(self) -> str | None: ...


def is_inside_roots(path: str, session: SessionFolders, real: PathResolver = resolve_path) -> bool:
    if session.real_roots is not None:
        return any(is_inside(path, root) for root in session.real_roots)
    return is_inside_any(path, session.roots, real)


def is_in_daemon_home(path: str, session: SessionFolders, real: PathResolver = resolve_path) -> bool:
    """Whether it is in the daemon's own folder, which holds its token and all sessions."""
    if session.real_home is not None:
        return is_inside(path, session.real_home)
    return bool(session.home) and is_inside(path, real(session.home))


def holds_daemon_home(path: str, session: SessionFolders, real: PathResolver = resolve_path) -> bool:
    """Whether the daemon's own folder is below it."""
    home = session.real_home or (real(session.home) if session.home else None)
    return home is not None and is_inside(home, path)


def format_path(path: str, folder: str) -> str:
    """The path as people and models read it: relative to the folder where it is inside."""
    relative = os.path.relpath(path, folder) if is_inside(path, folder) else path
    return make_printable(relative)


def shorten_path(path: str) -> str:
    """The path for the one-line description of a call that is not validated yet: no path that can be used is cut."""
    return path if len(path) < _MAX_BYTES else f"{path[:200]}…"


def make_printable(name: str) -> str:
    """The name with replacement characters for what is not UTF-8, which cannot be written to JSON."""
    return os.fsencode(name).decode("utf-8", "replace")


class ApprovedPaths:
    """The real path of each call when its permission was checked, so that a link planted afterwards is noticed."""

    def __init__(self) -> None:
        self._places: OrderedDict[CallId, str] = OrderedDict()

    def note(self, call_id: CallId, place: str) -> None:
        self._places[call_id] = place
        self._places.move_to_end(call_id)
        if len(self._places) > _MAX_REMEMBERED:
            self._places.popitem(last=False)

    def has_moved(self, call_id: CallId, place: str) -> bool:
        """Whether the path leads elsewhere now; forgets the call. One that an earlier daemon checked is not known."""
        return self._places.pop(call_id, place) != place
