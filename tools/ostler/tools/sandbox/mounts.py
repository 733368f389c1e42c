"""The order of mounts: the deeper one lies above, so that a root in a covered folder is seen, and a cover in a root."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ostler.tools.fs import paths
from ostler.tools.sandbox.profile import NotProtectable, Profile, real
from ostler.tools.sandbox.protected_names import CREDENTIALS, OF_THE_MACHINE
from ostler.tools.sandbox.protection import between, protection

_FRESH: Final = ("/tmp", "/run")  # noqa: S108 - it is covered, not written to


class Way(Enum):
    """What lies on a path."""

    EMPTY = "an empty folder"
    SCRATCH = "an empty folder to write in"
    NOTHING = "a file that cannot be opened"
    READ_ONLY = "what is there, read-only"
    WRITABLE = "what is there"


_COVERS: Final = (Way.EMPTY, Way.SCRATCH, Way.NOTHING)


@dataclass(slots=True)
class Mounts:
    """A way for each path, in the order in which they are mounted."""

    ways: dict[str, Way] = field(default_factory=dict)

    def cover(self, path: str) -> None:
        """By its real path; what is not there needs no cover."""
        with contextlib.suppress(OSError):
            way = Way.EMPTY if stat.S_ISDIR(os.stat(path).st_mode) else Way.NOTHING
            self.ways[paths.real(path)] = way

    def in_order(self) -> Iterator[tuple[str, Way]]:
        for path in sorted(self.ways, key=lambda path: (path.rstrip("/").count("/"), path)):
            if not (self.ways[path] in _COVERS and self.is_covered(os.path.dirname(path))):
                yield path, self.ways[path]

    def is_covered(self, path: str) -> bool:
        """By itself, or by the nearest folder above that has a way."""
        while path not in self.ways and path != "/":
            path = os.path.dirname(path)
        return self.ways.get(path) in _COVERS


def mounts(profile: Profile) -> Mounts:
    """All that is laid over the read-only `/`. Raises NotProtectable and OSError."""
    plan = Mounts()
    roots = [real(root) for root in profile.roots]
    _cover_secrets(plan, profile)
    for socket in _sockets():
        plan.cover(socket)
    plan.ways.update({_FRESH[0]: Way.SCRATCH, _FRESH[1]: Way.EMPTY})
    plan.ways.update(dict.fromkeys(roots, Way.WRITABLE if profile.kind == "workspace" else Way.READ_ONLY))
    for path in profile.hidden:
        plan.cover(path)
    if profile.kind == "workspace":
        _protect(plan, profile, roots)
    plan.ways.update({paths.real(path): Way.READ_ONLY for path in profile.shown_files})
    plan.ways.update({paths.real(path): Way.WRITABLE for path in profile.own_files})
    return plan


def _protect(plan: Mounts, profile: Profile, roots: list[str]) -> None:
    found = protection(profile)
    if not all(map(os.path.lexists, found.missing)):
        # bwrap would make the missing ones, and nobody would know whose they are.
        raise NotProtectable("The placeholders of protected names are missing: the profile must be held first.")
    covers = [path for path, way in plan.in_order() if way in _COVERS]
    pinned = found.pinned.union(*(between(path, roots) for path in covers))
    for paths_of_one_way, way in ((pinned, Way.WRITABLE), (found.kept, Way.READ_ONLY), (found.missing, Way.EMPTY)):
        for path in paths_of_one_way:
            # What is covered stays so: a credential is not to be read either, and nothing shows through a cover.
            if path not in roots and not plan.is_covered(path):
                plan.ways[path] = way


def _cover_secrets(plan: Mounts, profile: Profile) -> None:
    home = paths.real(profile.home)
    for name in CREDENTIALS:
        plan.cover(os.path.join(home, name))
    for path in OF_THE_MACHINE:
        if os.access(path, os.R_OK) or os.access(path, os.X_OK):
            plan.cover(path)
    if os.getuid() == 0 and not paths.inside(home, "/home"):
        # To root everybody's home is open.
        plan.cover("/home")


def _sockets() -> Iterator[str]:
    """Every socket outside that may be connected to: no list of usual places would hold them all.

    One that goes away before bwrap covers it keeps the command from starting.
    """
    with contextlib.suppress(OSError), open("/proc/net/unix", "rb") as file:
        for line in file.read().splitlines()[1:]:
            fields = line.split(None, 7)
            if len(fields) == 8 and fields[7].startswith(b"/"):
                path = os.fsdecode(fields[7])
                with contextlib.suppress(OSError):
                    if stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK):
                        yield path
