"""Resolves the file or folder in which Glob and Grep search, and checks that they may."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.fs.similar_paths import build_path_filter, describe_missing
from ostler.tools.permissions.subject import AccessedPath, PathSubject
from ostler.tools.search.glob_pattern import get_literal_prefix
from ostler.tools.tool import Allow, AskFirst, Check, Failure, Refuse

MISSING: Final = 1
"""The code of a missing path, as of a file that Read does not find."""
_MAX_BYTES: Final = 100_000
"""Linux takes 128 KiB in one argument."""
_ANY_NAME: Final = "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
"""Stands for any file in a folder: only a rule about the whole folder matches this name."""


@dataclass(frozen=True, slots=True)
class SearchRoot:
    """The folder or file in which a search starts."""

    written: str
    """The path as it is shown."""
    place: str
    """The real path, with all links resolved."""
    base: str
    """The folder itself, or the folder of the file."""
    inside: str
    """The prefix of all names in `base`."""
    pattern: str
    """The rest of the pattern, relative to `base`."""
    folder: str
    """The folder that the session is in: names are shown relative to it."""
    home: str
    """The daemon's own folder, which is left out."""
    may_read: Callable[[str], bool] | None
    """Whether the person's rules let a path be read; null where no rule is about paths."""

    def make_relative(self, name: str) -> str:
        """The name of something inside, as patterns see it."""
        return name[len(self.inside) :]

    def format_name(self, name: str) -> str:
        """The name of something inside, as it is shown."""
        return paths.format_path(self._format_written(name), self.folder)

    def is_visible(self, name: str) -> bool:
        """Whether the rules let a file inside be shown, by its path as written and by its real path."""
        if not name.startswith(self.inside) and name != self.place:
            return False  # not in the search root: no rule can be checked for it
        return self.may_read is None or (self.may_read(name) and self.may_read(self._format_written(name)))

    def hides_all(self) -> bool:
        """Whether a rule hides everything that could be found here."""
        return os.path.isdir(self.place) and not self.is_visible(os.path.join(self.place, _ANY_NAME))

    def _format_written(self, name: str) -> str:
        return self.written if name == self.place else os.path.join(self.written, self.make_relative(name))


def resolve_root(path: str | None, session: SessionView, pattern: str = "") -> SearchRoot:
    """Resolves the root: leading folders of the pattern become part of it, and a pattern from / needs no path."""
    folder = paths.resolve_path(session.shell_folder)
    written = paths.normalize_path(os.path.join(folder, path or ""))
    if pattern.startswith("/"):
        written, pattern = "/", f"./{pattern.lstrip('/')}"
    prefix = get_literal_prefix(pattern.removeprefix("./"))
    if prefix and os.path.isdir(os.path.join(written, prefix)):
        # With its dot it still is a pattern with a slash, which matches from here on and not in any folder.
        written, pattern = os.path.join(written, prefix), f"./{pattern.removeprefix('./')[len(prefix) + 1 :]}"
    place = paths.resolve_path(written)
    base = place if os.path.isdir(place) else os.path.dirname(place)
    return SearchRoot(
        written=written,
        place=place,
        base=base,
        inside=f"{base.rstrip('/')}/",
        pattern=pattern,
        folder=folder,
        home=paths.resolve_path(session.home) if session.home else "",
        may_read=session.may_read,
    )


def build_subject(path: str | None, session: SessionView, pattern: str = "") -> PathSubject:
    """What permission rules are matched with: the root, whether a path was given or not."""
    root = resolve_root(path, session, pattern)
    return PathSubject((AccessedPath(root.written, root.place),))


def check_exists(path: str | None, session: SessionView) -> Failure | None:
    root = resolve_root(path, session)
    try:
        kind = os.stat(root.place).st_mode
    except PermissionError:
        return _fail_closed(root)
    except OSError:
        return _fail_missing(root, session)
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return Failure(f"{root.written} is a device, a pipe or a socket: there is nothing in it to search.")
    return check_readable(root)


def check_readable(root: SearchRoot) -> Failure | None:
    """Fails where the root may not be read: ripgrep would only find nothing there."""
    needed = os.R_OK | os.X_OK if root.base == root.place else os.R_OK
    readable = os.access(root.place, needed, effective_ids=os.access in os.supports_effective_ids)
    return None if readable else _fail_closed(root)


def _fail_closed(root: SearchRoot) -> Failure:
    return Failure(f"{root.written} cannot be searched: Permission denied.")


def _fail_missing(root: SearchRoot, session: SessionView) -> Failure:
    return Failure(
        describe_missing(root.written, build_path_filter(session, allowed=False)).replace("The file", "The path", 1),
        MISSING,
    )


def may_search(name: str, root: SearchRoot, session: SessionView) -> Check:
    if paths.is_in_daemon_home(root.place, session):
        return Refuse(f"{root.written} is in the daemon's own folder.")
    if root.hides_all():
        return Refuse(f"A rule keeps everything in {root.written} from being searched.")
    if paths.is_inside_roots(root.place, session):
        return Allow()
    return AskFirst(f"{name} in {root.written}?", reason="It is outside the session's folders.")


def fail_moved(root: SearchRoot) -> Failure:
    return Failure(f"{root.written} leads to another place than when it was allowed.")


def check_length(path: str | None, session: SessionView) -> Failure | None:
    problem = paths.check_length(os.path.join(session.shell_folder, path or ""))
    return Failure(problem) if problem is not None else None


def check_texts(*texts: str | None) -> Failure | None:
    """Refuses texts that cannot be passed as arguments to a program."""
    for text in filter(None, texts):
        if "\0" in text:
            return Failure("NUL bytes cannot be searched for, nor stand in a path.")
        if len(text.encode()) > _MAX_BYTES:
            return Failure(f"More than {_MAX_BYTES} bytes are too long for a pattern or a path.")
    return None
