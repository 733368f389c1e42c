"""Plans the sandbox's mounts.

The deeper path is mounted later, so that a root in a covered folder is visible, and a cover in a root is effective.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ostler.tools.fs import paths
from ostler.tools.sandbox.profile import NotProtectable, Profile, require_real_path
from ostler.tools.sandbox.protected_names import CREDENTIALS, MACHINE_SECRETS
from ostler.tools.sandbox.protection import Protection, list_parents, plan_protection

_FRESH_FOLDERS: Final = ("/tmp", "/run")  # noqa: S108 - it is covered, not written to


class MountKind(Enum):
    """What is mounted on a path."""

    EMPTY = "an empty folder"
    SCRATCH = "an empty folder to write in"
    NOTHING = "a file that cannot be opened"
    READ_ONLY = "what is there, read-only"
    WRITABLE = "what is there"


_COVERS: Final = (MountKind.EMPTY, MountKind.SCRATCH, MountKind.NOTHING)


@dataclass(slots=True)
class MountPlan:
    """The kind of mount of each path, and the order in which they are mounted."""

    kinds: dict[str, MountKind] = field(default_factory=dict)

    def cover(self, path: str) -> None:
        """Hides a path, by its real one; what does not exist needs no cover."""
        with contextlib.suppress(OSError):
            kind = MountKind.EMPTY if stat.S_ISDIR(os.stat(path).st_mode) else MountKind.NOTHING
            self.kinds[paths.resolve_path(path)] = kind

    def iter_in_order(self) -> Iterator[tuple[str, MountKind]]:
        for path in sorted(self.kinds, key=lambda path: (path.rstrip("/").count("/"), path)):
            if not (self.kinds[path] in _COVERS and self.is_covered(os.path.dirname(path))):
                yield path, self.kinds[path]

    def is_covered(self, path: str) -> bool:
        """By its own mount, or by that of the nearest folder above that has one."""
        while path not in self.kinds and path != "/":
            path = os.path.dirname(path)
        return self.kinds.get(path) in _COVERS


def plan_mounts(profile: Profile, *, cover_sockets: bool = True) -> MountPlan:
    """All that is mounted over the read-only `/`. Raises NotProtectable and OSError."""
    plan = MountPlan()
    roots = [require_real_path(root) for root in profile.roots]
    _cover_secrets(plan, profile)
    for socket in _list_sockets() if cover_sockets else ():
        plan.cover(socket)
    plan.kinds.update({_FRESH_FOLDERS[0]: MountKind.SCRATCH, _FRESH_FOLDERS[1]: MountKind.EMPTY})
    plan.kinds.update(dict.fromkeys(roots, MountKind.WRITABLE if profile.kind == "workspace" else MountKind.READ_ONLY))
    for path in profile.hidden:
        plan.cover(path)
    found = _protect(plan, profile, roots) if profile.kind == "workspace" else Protection()
    plan.kinds.update({paths.resolve_path(path): MountKind.READ_ONLY for path in profile.shown_files})
    for folder in found.git_folders:
        plan.kinds.update(dict.fromkeys(folder.writable, MountKind.WRITABLE))
        plan.kinds.update(dict.fromkeys(folder.kept, MountKind.READ_ONLY))
    plan.kinds.update({paths.resolve_path(path): MountKind.WRITABLE for path in profile.own_files})
    return plan


def _protect(plan: MountPlan, profile: Profile, roots: list[str]) -> Protection:
    found = plan_protection(profile)
    if not all(map(os.path.lexists, found.missing)):
        # bwrap would make the missing ones, and nobody would know whose they are.
        raise NotProtectable("The placeholders of protected names are missing: the profile must be held first.")
    covers = [path for path, kind in plan.iter_in_order() if kind in _COVERS]
    pinned = found.pinned.union(*(list_parents(path, roots) for path in covers))
    for paths_of_one_kind, kind in (
        (pinned, MountKind.WRITABLE),
        (found.kept, MountKind.READ_ONLY),
        (found.missing, MountKind.EMPTY),
    ):
        for path in paths_of_one_kind:
            # What is covered stays so: a credential must not be read either.
            if path not in roots and not plan.is_covered(path):
                plan.kinds[path] = MountKind.READ_ONLY if os.path.isfile(path) and kind is MountKind.EMPTY else kind
    return found


def _cover_secrets(plan: MountPlan, profile: Profile) -> None:
    home = paths.resolve_path(profile.home)
    for name in CREDENTIALS:
        plan.cover(os.path.join(home, name))
    for path in MACHINE_SECRETS:
        if os.access(path, os.R_OK) or os.access(path, os.X_OK):
            plan.cover(path)
    if os.getuid() == 0 and not paths.is_inside(home, "/home"):
        # Root may read everybody's home.
        plan.cover("/home")


def _list_sockets() -> Iterator[str]:
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
