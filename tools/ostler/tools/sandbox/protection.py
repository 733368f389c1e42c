"""Protected names in writable folders, there or not.

What is there is bound over itself, read-only. What is not there needs something to mount upon: an empty folder, made
before the command and taken away after it. It is a folder even where a file is meant, since git neither shows nor adds
one. While the command runs, the name cannot be created, replaced or renamed. All of `.git` is read-only: whoever may
create `.git/commondir` may choose another config, and with it what git runs.

Nothing can be mounted on a link, so that a protected name which is one cannot be kept from being replaced:
`NotProtectable`. Names deeper in a root are protected where the profile names them, which keeps them and the folders
above them where they are; what is created there can only be found afterwards: `guarded_inside`, before and after.

A mount goes away when somebody outside removes or replaces what it lies on: whoever edits a protected file while a
command runs opens it to that command, and no placeholder is removed while another command needs it.

A daemon that dies leaves its placeholders where they are. So each command has a note of those that it needs, written
before the first of them is made: the next daemon holds them again for a command that still runs, and takes the others
away.
"""

import contextlib
import json
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import why_guarded
from ostler.tools.sandbox.profile import NotProtectable, Profile, real
from ostler.tools.sandbox.protected_names import IN_A_HOME, IN_A_PROJECT, PARTLY, PARTLY_IN_A_HOME

_OUR_TIME: Final = 7_717
"""Seconds after the epoch: no folder that somebody else made was changed then, and ours no more once it is used."""
_MOST_ENTRIES: Final = 500_000


@dataclass(slots=True)
class Protection:
    """What is to be protected in one profile's roots."""

    kept: set[str] = field(default_factory=set)
    """There: read-only."""
    missing: set[str] = field(default_factory=set)
    """Not there, or a placeholder of ours."""
    pinned: set[str] = field(default_factory=set)
    """Writable, but not to be renamed, since something inside is protected."""


def protection(profile: Profile) -> Protection:
    """Looks at the roots. Raises NotProtectable and OSError."""
    found = Protection()
    if profile.kind == "read_only":
        return found
    roots = [real(root) for root in profile.roots]
    for root in roots:
        _look_into(root, IN_A_PROJECT, PARTLY, found)
        _keep_from_being_a_repository(root, found)
    home = paths.real(profile.home)
    if os.path.isdir(home) and paths.inside_any(home, roots):
        _look_into(home, IN_A_HOME, PARTLY_IN_A_HOME, found)
        found.pinned.update(between(home, roots), {home} - set(roots))
    for path in map(paths.written, profile.protected):
        _keep(path, found)
        found.pinned.update(between(path, roots))
    found.pinned = {real(path) for path in found.pinned - found.kept - found.missing}
    return found


def between(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The folders above a path, up to the root that it is in."""
    above = [root for root in roots if paths.inside(path, root) and path != root]
    if not above:
        return
    outermost = min(above, key=len)
    parent = os.path.dirname(path)
    while parent != outermost:
        yield parent
        parent = os.path.dirname(parent)


def _look_into(
    folder: str, names: Iterable[str], partly: dict[str, tuple[str, ...]], found: Protection, prefix: str = "/"
) -> None:
    """One folder: what is there and guarded, in whatever case, and what is not there."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if why_guarded(prefix + entry.name):
                _keep(entry.path, found)
    for name in names:
        if not os.path.lexists(os.path.join(folder, name)):
            found.missing.add(os.path.join(folder, name))
    for name, inner in partly.items():
        path = _existing(folder, name)
        if not os.path.lexists(path) or _is_placeholder(path):
            found.missing.add(path)
        elif os.path.islink(path) or not os.path.isdir(path):
            _keep(path, found)
        else:
            found.pinned.update({path}, between(path, [folder]))
            _look_into(path, inner, {}, found, f"/{name}/")


def _existing(folder: str, name: str) -> str:
    """The path, or as much of it as there is, up to the first part that is missing or is no folder."""
    path = folder
    for part in name.split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path) or not os.path.isdir(path) or _is_placeholder(path):
            break
    return path


def _keep(path: str, found: Protection) -> None:
    if os.path.islink(path):
        raise NotProtectable(
            f"{path!r} is a link, which a sandboxed command could replace: put the file or folder itself there."
        )
    (found.missing if _is_placeholder(path) else found.kept).add(path)


def _keep_from_being_a_repository(root: str, found: Protection) -> None:
    """git takes any folder with HEAD, objects and refs for a repository, and runs what its config says."""
    if os.path.join(root, ".git") not in found.missing:
        return
    head = os.path.join(root, "HEAD")
    if os.path.lexists(head) and not _is_placeholder(head):
        raise NotProtectable(
            f"{root!r} looks like a bare git repository, whose config a sandboxed command could write."
        )
    found.missing.add(head)


def _is_placeholder(path: str) -> bool:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode) and status.st_mtime_ns == _OUR_TIME * 10**9:
            return not os.listdir(path)
    return False


_lock: Final = threading.Lock()
_needed: Final[Counter[str]] = Counter()
"""How many commands need a placeholder."""


class Held(frozenset[str]):
    """The placeholders that one command needs."""

    note: str | None = None
    """The file that says so."""


def hold(profile: Profile, note: str | None = None) -> Held:
    """Makes the placeholders that a command needs, to be released after it. Blocks. Raises as `protection` does."""
    with _lock:
        wanted = Held(protection(profile).missing)
        wanted.note = note
        made: list[str] = []
        try:
            _write_note(wanted)
            for path in wanted:
                if not os.path.lexists(path):
                    os.mkdir(path, 0o755)
                    made.append(path)
                    os.utime(path, (_OUR_TIME, _OUR_TIME))
        except OSError:
            _remove(path for path in made if not _needed[path])
            _drop_note(note)
            raise
        _needed.update(wanted)
        return wanted


def hold_again(note: str) -> Held | None:
    """Those of a command that an earlier daemon started, and that still runs. Blocks."""
    with _lock:
        held = _noted(note)
        _needed.update(held or ())
        return held


def release(held: frozenset[str]) -> None:
    """Takes away the placeholders that nobody needs any more. Blocks."""
    with _lock:
        _needed.subtract(held)
        _remove_unneeded(held)
        if isinstance(held, Held):
            _drop_note(held.note)


def release_noted(note: str) -> None:
    """The same for a command of an earlier daemon. Blocks. Only where it has ended: it would lose its protection."""
    with _lock:
        _remove_unneeded(_noted(note) or ())
        _drop_note(note)


def _remove_unneeded(held: Iterable[str]) -> None:
    unneeded = [path for path in held if _needed[path] <= 0]
    for path in unneeded:
        del _needed[path]
    _remove(unneeded)


def _write_note(held: Held) -> None:
    if held.note is not None:
        descriptor = os.open(held.note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(sorted(held), file)


def _noted(note: str) -> Held | None:
    try:
        with open(note, encoding="ascii") as file:
            held = Held(json.load(file))
    except (OSError, ValueError):  # there is none, or its daemon died before it had made anything
        return None
    held.note = note
    return held


def _drop_note(note: str | None) -> None:
    if note is not None:
        with contextlib.suppress(OSError):
            os.unlink(note)


def _remove(candidates: Iterable[str]) -> None:
    for path in candidates:
        if _is_placeholder(path):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def guarded_inside(roots: Iterable[str]) -> frozenset[str]:
    """All guarded paths in the roots, however deep, links not followed: before a command to be protected, after it to
    be compared. Blocks; looks at half a million entries at most, and raises NotProtectable where there are more.
    """
    found: set[str] = set()
    seen = 0
    for root in map(paths.real, roots):
        for folder, folders, files in os.walk(root):
            seen += len(folders) + len(files)
            if seen > _MOST_ENTRIES:
                raise NotProtectable(f"{root!r} holds more than {_MOST_ENTRIES} files: too many to look at them all.")
            place = folder.removeprefix(root) + "/"
            guarded = {name for name in (*folders, *files) if why_guarded(place + name)}
            found.update(os.path.join(folder, name) for name in guarded)
            folders[:] = [name for name in folders if name not in guarded]
    return frozenset(found)
