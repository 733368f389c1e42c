"""Protects names in writable folders from a sandboxed command, whether they exist or not.

What exists is bound over itself, read-only. What does not exist needs a placeholder to mount upon: an empty folder made
before the command and removed after it. It is a folder even where a file is meant, since git neither shows nor adds
one. While the command runs, the name cannot be created, replaced or renamed. All of `.git` is read-only, but for a
command that runs git: `git_folders` says what that may write.

Nothing can be mounted on a link, so that a protected name which is one cannot be kept from being replaced:
`NotProtectable`. Names deeper in a root are protected where the profile names them, which keeps them and the folders
above them where they are; what is created there is found afterwards, and set aside: `guarded_names`.

A mount goes away when somebody outside removes or replaces what it lies on: whoever edits a protected file while a
command runs opens it to that command, and no placeholder is removed while another command needs it.

A daemon that dies leaves its placeholders where they are. So each command has a note of those that it needs, written
before the first of them is made: the next daemon holds them again for a command that still runs, and removes the
others.
"""

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from ostler.tools import commands
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import find_protection_reason
from ostler.tools.sandbox.git_folders import GitFolder, plan_repository, plan_worktree, set_aside_git_changes
from ostler.tools.sandbox.guarded_names import (
    COMMON_DIR,
    COMMON_DIR_CONTENT,
    PLACEHOLDER_MTIME,
    GuardedNames,
    is_placeholder,
    scan_guarded_names,
    set_aside_changes,
)
from ostler.tools.sandbox.profile import NotProtectable, Profile, require_real_path
from ostler.tools.sandbox.protected_names import HOME_NAMES, PARTLY_PROTECTED, PARTLY_PROTECTED_IN_HOME, PROJECT_NAMES
from ostler.tools.tool_config import NO_LIMITS, Limits


@dataclass(slots=True)
class Protection:
    """What is to be protected in one profile's roots."""

    kept: set[str] = field(default_factory=set)
    """What exists: read-only."""
    missing: set[str] = field(default_factory=set)
    """What does not exist, or is a placeholder of ours."""
    pinned: set[str] = field(default_factory=set)
    """Writable, but not to be renamed, since something inside is protected."""
    git_folders: list[GitFolder] = field(default_factory=list)
    """Those that git may write in."""


def plan_protection(profile: Profile) -> Protection:
    """Scans the roots for what a profile must protect. Raises NotProtectable and OSError."""
    found = Protection()
    if profile.kind == "read_only":
        return found
    roots = [require_real_path(root) for root in profile.roots]
    for root in roots:
        _scan_folder(root, PROJECT_NAMES, PARTLY_PROTECTED, found)
        _prevent_repository(root, found)
        if profile.git_writes:
            _open_git_folder(root, profile.git_folder, found)
    home = paths.resolve_path(profile.home)
    if os.path.isdir(home) and paths.is_inside_any(home, roots):
        _scan_folder(home, HOME_NAMES, PARTLY_PROTECTED_IN_HOME, found)
        found.pinned.update(list_parents(home, roots), {home} - set(roots))
    for path in map(_find_first_missing, map(paths.normalize_path, profile.protected)):
        _add_protected(path, found)
        found.pinned.update(list_parents(path, roots))
    found.pinned = {require_real_path(path) for path in found.pinned - found.kept - found.missing}
    return found


def check_protection(profile: Profile) -> None:
    """Raises NotProtectable where a name cannot be kept from a command; makes nothing. Blocks."""
    plan_protection(profile)


def list_parents(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The folders above a path, up to the root that it is in."""
    above = [root for root in roots if paths.is_inside(path, root) and path != root]
    if not above:
        return
    outermost = min(above, key=len)
    parent = os.path.dirname(path)
    while parent != outermost:
        yield parent
        parent = os.path.dirname(parent)


def _scan_folder(
    folder: str, names: Iterable[str], partly: dict[str, tuple[str, ...]], found: Protection, prefix: str = "/"
) -> None:
    """Adds what exists in one folder and is guarded, in whatever case, and which names do not exist."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if find_protection_reason(prefix + entry.name):
                _add_protected(entry.path, found)
    for name in names:
        if not os.path.lexists(os.path.join(folder, name)):
            found.missing.add(os.path.join(folder, name))
    for name, inner in partly.items():
        path = _find_existing(folder, name)
        if not os.path.lexists(path) or is_placeholder(path):
            found.missing.add(path)
        elif os.path.islink(path) or not os.path.isdir(path):
            _add_protected(path, found)
        else:
            found.pinned.update({path}, list_parents(path, [folder]))
            _scan_folder(path, inner, {}, found, f"/{name}/")


def _find_existing(folder: str, name: str) -> str:
    """The path, or as much of it as there is, up to the first part that is missing or is no folder."""
    path = folder
    for part in name.split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path) or not os.path.isdir(path) or is_placeholder(path):
            break
    return path


def _add_protected(path: str, found: Protection) -> None:
    if os.path.islink(path):
        raise NotProtectable(
            f"{path!r} is a link, which a sandboxed command could replace: put the file or folder itself there."
        )
    (found.missing if is_placeholder(path) or not os.path.lexists(path) else found.kept).add(path)


def _find_first_missing(path: str) -> str:
    """The path, or the first part of it that there is not, or that is a placeholder already."""
    while not os.path.lexists(above := os.path.dirname(path)) or is_placeholder(above):
        path = above
    return path


def _prevent_repository(root: str, found: Protection) -> None:
    """git takes any folder with HEAD, objects and refs for a repository, and runs what its config says."""
    if os.path.join(root, ".git") not in found.missing:
        return
    head = os.path.join(root, "HEAD")
    if os.path.lexists(head) and not is_placeholder(head):
        raise NotProtectable(
            f"{root!r} looks like a bare git repository, whose config a sandboxed command could write."
        )
    found.missing.add(head)


def _open_git_folder(root: str, common: str | None, found: Protection) -> None:
    """Lets git write in the repository of a root: its own `.git`, or that of the repository whose worktree it is."""
    git = os.path.join(root, ".git")
    if git not in found.kept:
        return
    if os.path.isdir(git):
        opened = plan_repository(git)
        if opened is not None:
            found.kept.remove(git)
            found.pinned.add(git)
            found.kept.update(opened.kept)
            found.missing.update(opened.missing)
    else:
        opened = plan_worktree(root, common) if common is not None else None
    if opened is not None:
        found.git_folders.append(opened)


_lock: Final = threading.Lock()
_hold_counts: Final[Counter[str]] = Counter()
"""How many commands need a placeholder."""


class HeldPlaceholders(frozenset[str]):
    """The placeholders that one command needs."""

    note_path: str | None = None
    """The path of the file that lists them."""
    guarded: GuardedNames | None = None
    """The guarded names that were there before the command."""
    ignored: frozenset[str] = frozenset()
    """What the command could not change."""
    git_folders: tuple[GitFolder, ...] = ()
    """Those that git may have written in."""
    limits: Limits = NO_LIMITS
    """The command's own, for a daemon that finds it running."""


def hold_workspace(profile: Profile, note: str | None = None) -> tuple[Profile, HeldPlaceholders]:
    """Protects all guarded names of a workspace that can be: the profile with those that are to be bound, and what is
    to be released after the command. Blocks. Raises as `plan_protection`.
    """
    if profile.kind == "read_only":
        return profile, hold_placeholders(profile, note)
    at_hand = plan_protection(profile)
    opened = (folder.top for folder in at_hand.git_folders)
    ignored = frozenset((*at_hand.kept, *at_hand.missing, *opened, *map(paths.resolve_path, profile.hidden)))
    # A root inside another is looked at with it.
    roots = [require_real_path(root) for root in profile.roots]
    outer = tuple(root for root in roots if not any(other != root and paths.is_inside(root, other) for other in roots))
    guarded = scan_guarded_names(outer, ignored)
    nested = [os.path.dirname(path) for path in guarded.bound if os.path.basename(path).lower() == ".git"]
    hooks = list_hook_folders(nested, roots)
    profile = replace(profile, protected=tuple(dict.fromkeys((*profile.protected, *guarded.bound, *hooks))))
    return profile, hold_placeholders(profile, note, guarded, ignored)


def list_hook_folders(repositories: Iterable[str], roots: Sequence[str]) -> list[str]:
    """Where these repositories take their hooks from, below the roots, whether it is there or not. Blocks."""
    found = map(commands.find_hooks_folder, repositories)
    real = dict.fromkeys(paths.resolve_path(folder) for folder in found if folder is not None)
    return [path for path in real if any(path != root and paths.is_inside(path, root) for root in roots)]


def hold_placeholders(
    profile: Profile,
    note: str | None = None,
    guarded: GuardedNames | None = None,
    ignored: frozenset[str] = frozenset(),
) -> HeldPlaceholders:
    """Makes the placeholders that a command needs, to be released after it. Blocks. Raises as `plan_protection`."""
    with _lock:
        found = plan_protection(profile)
        wanted = HeldPlaceholders(found.missing)
        wanted.note_path, wanted.guarded, wanted.ignored, wanted.limits = note, guarded, ignored, profile.limits
        wanted.git_folders = tuple(found.git_folders)
        made: list[str] = []
        try:
            _write_note(wanted)
            for path in wanted:
                if not os.path.lexists(path):
                    _make_placeholder(path)
                    made.append(path)
                    os.utime(path, (PLACEHOLDER_MTIME, PLACEHOLDER_MTIME))
        except OSError:
            _remove_placeholders(path for path in made if not _hold_counts[path])
            _drop_note(note)
            raise
        _hold_counts.update(wanted)
        return wanted


def _make_placeholder(path: str) -> None:
    if os.path.basename(path) != COMMON_DIR:
        os.mkdir(path, 0o755)
        return
    with open(path, "xb") as file:
        file.write(COMMON_DIR_CONTENT)


def rehold_placeholders(note: str) -> HeldPlaceholders | None:
    """Holds those of a command that an earlier daemon started, and that still runs. Blocks."""
    with _lock:
        held = _read_note(note)
        _hold_counts.update(held or ())
        return held


def release_placeholders(held: frozenset[str]) -> list[str]:
    """Sets aside the guarded names that the command made or changed, and removes the placeholders that no other command
    needs. Blocks. Returns a line about each name that was set aside.
    """
    lines = _set_aside(held) if isinstance(held, HeldPlaceholders) else []
    with _lock:
        _hold_counts.subtract(held)
        _remove_unneeded(held)
        if isinstance(held, HeldPlaceholders):
            _drop_note(held.note_path)
    return lines


def release_noted_placeholders(note: str) -> list[str]:
    """The same for a command of an earlier daemon that has ended: a running one would lose its protection. Blocks."""
    held = _read_note(note)
    lines = _set_aside(held) if held is not None else []
    with _lock:
        _remove_unneeded(held or ())
        _drop_note(note)
    return lines


def _set_aside(held: HeldPlaceholders) -> list[str]:
    lines = [line for folder in held.git_folders for line in set_aside_git_changes(folder)]
    return lines + (set_aside_changes(held.guarded, held.ignored.union(held)) if held.guarded is not None else [])


def _remove_unneeded(held: Iterable[str]) -> None:
    unneeded = [path for path in held if _hold_counts[path] <= 0]
    for path in unneeded:
        del _hold_counts[path]
    _remove_placeholders(unneeded)


def _write_note(held: HeldPlaceholders) -> None:
    if held.note_path is not None:
        descriptor = os.open(
            held.note_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(_build_note(held), file)


def _build_note(held: HeldPlaceholders) -> dict[str, object]:
    note: dict[str, object] = {"held": sorted(held), "ignored": sorted(held.ignored), "limits": asdict(held.limits)}
    note["git_folders"] = [asdict(folder) for folder in held.git_folders]
    if (guarded := held.guarded) is not None:
        note |= {
            "roots": guarded.roots,
            "bound": guarded.bound,
            "known": guarded.known,
            "repositories": sorted(guarded.repositories),
            "unseen": sorted(guarded.unseen),
        }
    return note


def _read_note(note: str) -> HeldPlaceholders | None:
    try:
        with open(note, encoding="ascii") as file:
            held = _parse_note(json.load(file))
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or its daemon died before it had made anything
        return None
    held.note_path = note
    return held


def _parse_note(note: dict[str, Any] | list[str]) -> HeldPlaceholders:
    if isinstance(note, list):  # as an earlier version wrote it
        return HeldPlaceholders(note)
    held = HeldPlaceholders(note["held"])
    held.ignored = frozenset(note["ignored"])
    held.limits = Limits(**note["limits"])
    held.git_folders = tuple(
        GitFolder(each["checkout"], each["top"], tuple(each["writable"]), tuple(each["kept"]), tuple(each["missing"]))
        for each in note.get("git_folders", ())
    )
    if "roots" in note:
        held.guarded = GuardedNames(
            tuple(note["roots"]),
            tuple(note["bound"]),
            dict(note["known"]),
            set(note["repositories"]),
            set(note["unseen"]),
        )
    return held


def _drop_note(note: str | None) -> None:
    if note is not None:
        with contextlib.suppress(OSError):
            os.unlink(note)


def _remove_placeholders(candidates: Iterable[str]) -> None:
    for path in candidates:
        if is_placeholder(path):
            with contextlib.suppress(OSError):
                (os.rmdir if os.path.isdir(path) else os.unlink)(path)
