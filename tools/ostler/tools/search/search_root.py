"""Where a search starts, and whether it may."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.fs.similar_paths import known_to, missing_file
from ostler.tools.permissions.subject import OfPlaces, Place
from ostler.tools.search.glob_pattern import literal_prefix
from ostler.tools.tool import Allow, AskFirst, Check, Failure, Refuse

_MAX_BYTES: Final = 100_000
"""Linux takes 128 KiB in one argument."""
_ANYTHING: Final = "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
"""Stands for whatever lies in a folder: only a rule about all of it speaks of this name."""


@dataclass(frozen=True, slots=True)
class Start:
    """A folder or file to search in."""

    written: str
    """As it is shown."""
    place: str
    """Where it really is."""
    base: str
    """The folder that it is, or that it is in."""
    inside: str
    """How the names of all begin that is in there."""
    pattern: str
    """What of a pattern is left, seen from there."""
    folder: str
    """The session's own, from which on names are shown."""
    home: str
    """The daemon's own, which is left out."""
    may_read: Callable[[str], bool] | None
    """What the person's rules say of a path."""

    def relative(self, name: str) -> str:
        """The name of something inside, as patterns see it."""
        return name[len(self.inside) :]

    def found(self, name: str) -> str:
        """The name of something inside, as it is shown."""
        return paths.shown(self._written(name), self.folder)

    def visible(self, name: str) -> bool:
        """Whether the rules let something inside be shown, by its name as it would be written and as it really is."""
        if not name.startswith(self.inside) and name != self.place:
            return False  # whatever it is, no rule can have been meant for it
        return self.may_read is None or (self.may_read(name) and self.may_read(self._written(name)))

    def hides_all(self) -> bool:
        """Whether a rule speaks of everything that could be found here."""
        return os.path.isdir(self.place) and not self.visible(os.path.join(self.place, _ANYTHING))

    def _written(self, name: str) -> str:
        return self.written if name == self.place else os.path.join(self.written, self.relative(name))


def start(path: str | None, surroundings: Surroundings, pattern: str = "") -> Start:
    """A pattern that begins with names of folders starts there; one that begins at / does not need a path."""
    folder = paths.real(surroundings.folder)
    written = paths.written(os.path.join(folder, path or ""))
    if pattern.startswith("/"):
        written, pattern = "/", f"./{pattern.lstrip('/')}"
    prefix = literal_prefix(pattern.removeprefix("./"))
    if prefix and os.path.isdir(os.path.join(written, prefix)):
        # With its dot it still is a pattern with a slash, which matches from here on and not in any folder.
        written, pattern = os.path.join(written, prefix), f"./{pattern.removeprefix('./')[len(prefix) + 1 :]}"
    place = paths.real(written)
    base = place if os.path.isdir(place) else os.path.dirname(place)
    return Start(
        written=written,
        place=place,
        base=base,
        inside=f"{base.rstrip('/')}/",
        pattern=pattern,
        folder=folder,
        home=paths.real(surroundings.home) if surroundings.home else "",
        may_read=surroundings.may_read,
    )


def subject(path: str | None, surroundings: Surroundings, pattern: str = "") -> OfPlaces:
    """What rules look at: where it starts, whether that was written or not."""
    begin = start(path, surroundings, pattern)
    return OfPlaces((Place(begin.written, begin.place),))


def missing(path: str | None, surroundings: Surroundings) -> Failure | None:
    begin = start(path, surroundings)
    try:
        kind = os.stat(begin.place).st_mode
    except PermissionError:
        return _closed(begin)
    except OSError:
        return _nowhere(begin, surroundings)
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return Failure(f"{begin.written} is a device, a pipe or a socket: there is nothing in it to search.")
    return closed(begin)


def closed(begin: Start) -> Failure | None:
    """What may not be looked into: ripgrep would find nothing there, as if there were nothing."""
    needed = os.R_OK | os.X_OK if begin.base == begin.place else os.R_OK
    readable = os.access(begin.place, needed, effective_ids=os.access in os.supports_effective_ids)
    return None if readable else _closed(begin)


def _closed(begin: Start) -> Failure:
    return Failure(f"{begin.written} cannot be searched: Permission denied.")


def _nowhere(begin: Start, surroundings: Surroundings) -> Failure:
    return Failure(
        missing_file(begin.written, known_to(surroundings, allowed=False)).replace("The file", "The path", 1)
    )


def may_search(name: str, begin: Start, surroundings: Surroundings) -> Check:
    if paths.of_the_daemon(begin.place, surroundings):
        return Refuse(f"{begin.written} is in the daemon's own folder.")
    if begin.hides_all():
        return Refuse(f"A rule keeps everything in {begin.written} from being searched.")
    if paths.inside_roots(begin.place, surroundings):
        return Allow()
    return AskFirst(f"{name} in {begin.written}?", reason="It is outside the session's folders.")


def moved(begin: Start) -> Failure:
    return Failure(f"{begin.written} leads to another place than when it was allowed.")


def too_long(path: str | None, surroundings: Surroundings) -> Failure | None:
    flaw = paths.too_long(os.path.join(surroundings.folder, path or ""))
    return Failure(flaw) if flaw is not None else None


def unusable(*texts: str | None) -> Failure | None:
    """What cannot be handed to a program."""
    for text in filter(None, texts):
        if "\0" in text:
            return Failure("NUL bytes cannot be searched for, nor stand in a path.")
        if len(text.encode()) > _MAX_BYTES:
            return Failure(f"More than {_MAX_BYTES} bytes are too long for a pattern or a path.")
    return None
