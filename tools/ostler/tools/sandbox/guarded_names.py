"""Finds guarded names anywhere in the writable roots, and sets aside those that a sandboxed command made or changed.

A scan before the command says which guarded names exist: the nearest of them are bound read-only, the others are
remembered by what they hold. A second scan after it finds what is new or different, and renames it, in the same folder,
to a name that nobody reads: whatever the command did, nothing guarded of its making is there to act.

A folder whose change time is the same holds the same names, so that after the first scan only folders are looked at. A
program can set the time of modification, but not that of the change.
"""

import contextlib
import hashlib
import os
import re
import stat
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from ostler.tools.fs.protected_paths import find_protection_reason, list_protected_patterns
from ostler.tools.fs.regular_file import NotRegular, read_regular_file
from ostler.tools.sandbox.profile import NotProtectable

_MAX_ENTRIES: Final = 500_000
_MAX_ENTRIES_AFTERWARDS: Final = 5_000_000
_MAX_BOUND: Final = 64
"""Guarded names deeper in the roots that are bound read-only: each costs a mount, and one for each folder above it."""
_DEPENDENCIES: Final = frozenset(
    {
        "node_modules",
        ".venv",
        "venv",
        "target",
        "site-packages",
        "vendor",
        ".tox",
        ".nox",
        "dist",
        "build",
        "__pycache__",
    }
)
"""Folders that a build removes and makes anew: nothing inside is bound, so that it can. What changes is found after."""
_HASHED_BYTES: Final = 1024 * 1024
_RECENT_NS: Final = 2_500_000_000
"""A folder that changed so shortly before it was read may have changed again within one tick of the clock, which is two
seconds on some file systems.
"""
_KEPT_ROOTS: Final = 8
_BARE_REPOSITORY: Final = frozenset({"head", "objects", "refs"})
_HARMLESS_IN_REPOSITORY: Final = frozenset({"objects", "refs"})
_REPOSITORY_NAMES: Final = _BARE_REPOSITORY | {"config", "config.worktree", "commondir", "hooks", "info"}
_LONGEST: Final = max(map(len, _REPOSITORY_NAMES))


PLACEHOLDER_MTIME: Final = 7_717
"""Marks our placeholders, in seconds after the epoch: no other folder has it, and a used placeholder loses it."""


COMMON_DIR: Final = "commondir"
"""In a git folder it names another one; its placeholder is a file that names the folder itself, which git accepts."""
COMMON_DIR_CONTENT: Final = b".\n"


@dataclass(frozen=True, slots=True)
class _Folder:
    """What one folder held when it was read."""

    stamp: tuple[int, int, int, bool]
    """Device, inode, change time, 0 where that cannot be relied upon, and whether it is inside something guarded."""
    folders: tuple[str, ...]
    guarded: tuple[str, ...]
    count: int
    is_repository: bool
    """It looks like a bare git repository, whose config says what git runs."""


@dataclass(slots=True)
class GuardedNames:
    """The guarded names of a profile's roots at one time."""

    roots: tuple[str, ...]
    bound: tuple[str, ...] = ()
    """Those that are to be bound read-only, which nobody in the sandbox can change."""
    known: dict[str, str] = field(default_factory=dict)
    """The others, each with what it holds: its kind and mode, and a digest."""
    repositories: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    """Folders that could not be read."""


_FOLDER: Final = "folder"
_lock: Final = threading.Lock()
_folders_by_root: Final[OrderedDict[str, Mapping[str, _Folder]]] = OrderedDict()
_digests: Final[OrderedDict[tuple[int, ...], str]] = OrderedDict()
_MAX_DIGESTS: Final = 20_000
_approved: Final[OrderedDict[str, str]] = OrderedDict()
"""Guarded files that were written outside of the sandbox since a person said so, and what they held then."""
_MAX_APPROVED: Final = 1_000


def scan_guarded_names(roots: tuple[str, ...], ignored: frozenset[str] = frozenset()) -> GuardedNames:
    """All guarded names in the roots, however deep, links not followed. Blocks.

    `ignored`: protected already, with all below. Raises NotProtectable where there are too many files to look at.
    """
    return _Scan(roots, ignored, _MAX_ENTRIES, may_bind=True).run()


def record_approved_write(path: str) -> None:
    """Remembers a guarded file that a tool of ours wrote: a command that runs meanwhile has not made it. Blocks."""
    if find_protection_reason(path) and (holds := _describe(path)) is not None:
        with _lock:
            _approved[path] = holds
            _approved.move_to_end(path)
            while len(_approved) > _MAX_APPROVED:
                _approved.popitem(last=False)


def set_aside_changes(before: GuardedNames, ignored: frozenset[str] = frozenset()) -> list[str]:
    """Renames every guarded name that was not there before, or held something else. Blocks.

    Returns a line about each: what it is called now, or why it is still there.
    """
    try:
        scan = _Scan(before.roots, ignored.union(before.bound), _MAX_ENTRIES_AFTERWARDS, may_bind=False)
        after = scan.run()
    except NotProtectable as error:
        return [str(error)]
    lines = [f"{path} could not be looked at" for path in sorted(after.unseen - before.unseen)]
    return lines + [set_aside(path, _find_root(path, before.roots)) for path in _list_changes(before, after)]


def _list_changes(before: GuardedNames, after: GuardedNames) -> list[str]:
    """What is to be set aside: of a new folder the whole, unless something in it was approved."""
    with _lock:
        approved = {path for path, holds in _approved.items() if after.known.get(path) == holds}
    around_approved = {above for path in approved for above in _list_above(path)}
    new_repositories = after.repositories - before.repositories
    found: list[str] = []
    whole: set[str] = set()
    for path in sorted(after.known, key=lambda path: path.split("/")):
        holds = after.known[path]
        if holds == before.known.get(path) or path in approved or not whole.isdisjoint(_list_above(path)):
            continue
        if holds == _FOLDER and path in around_approved:
            continue
        if _belongs_to(new_repositories, path) and not find_protection_reason(_cut_root(path, before.roots)):
            continue
        found.append(path)
        whole.add(path)
    return found


def _belongs_to(new_repositories: set[str], path: str) -> bool:
    """Whether it counts only as a part of a new repository: without its HEAD that is none any more, and what else is
    called so may be the project's own.
    """
    for place in (path, *_list_above(path)):
        if os.path.dirname(place) in new_repositories:
            return place != path or os.path.basename(path).lower() != "head"
    return False


def _cut_root(path: str, roots: tuple[str, ...]) -> str:
    return path.removeprefix(_find_root(path, roots).rstrip("/"))


def _list_above(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _find_root(path: str, roots: tuple[str, ...]) -> str:
    return next(root for root in roots if path.startswith(f"{root.rstrip('/')}/"))


def is_placeholder(path: str) -> bool:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if status.st_mtime_ns != PLACEHOLDER_MTIME * 10**9:
            return False
        if stat.S_ISDIR(status.st_mode):
            return not os.listdir(path)
        return os.path.basename(path) == COMMON_DIR and status.st_size == len(COMMON_DIR_CONTENT)
    return False


class _Scan:
    """One walk, the nearest folders first."""

    def __init__(self, roots: tuple[str, ...], ignored: frozenset[str], most: int, *, may_bind: bool) -> None:
        self._ignored = ignored
        self._left = self._most = most
        self._may_bind = may_bind
        self._bound: dict[str, None] = {}
        self._found = GuardedNames(roots)

    def run(self) -> GuardedNames:
        for root in self._found.roots:
            with _lock:
                old = _folders_by_root.get(root, {})
            new: dict[str, _Folder] = {}
            self._walk(root, old, new)
            with _lock:
                _folders_by_root[root] = new
                _folders_by_root.move_to_end(root)
                while len(_folders_by_root) > _KEPT_ROOTS:
                    _folders_by_root.popitem(last=False)
        self._found.bound = tuple(self._bound)
        return self._found

    def _walk(self, root: str, old: Mapping[str, _Folder], new: dict[str, _Folder]) -> None:
        # Each folder, its path below the root, whether it is inside something guarded, and whether among dependencies.
        todo = deque([(root, "", False, False)])
        while todo:
            path, place, inside, dependencies = todo.popleft()
            try:
                folder = _read_folder(path, place, inside, old.get(path))
            except (FileNotFoundError, NotADirectoryError):  # it went away just now
                continue
            except OSError:
                self._found.unseen.add(path)
                continue
            new[path] = folder
            self._left -= folder.count
            if self._left < 0:
                raise NotProtectable(f"{root!r} holds more than {self._most} files: too many to look at them all.")
            if folder.is_repository:
                self._found.repositories.add(path)
            skipped = self._add_guarded(path, folder, inside, dependencies)
            for name in folder.folders:
                below = os.path.join(path, name)
                if name not in skipped and below not in self._ignored:
                    guarded = inside or name in folder.guarded
                    todo.append((below, f"{place}/{name}", guarded, dependencies or name in _DEPENDENCIES))

    def _add_guarded(self, path: str, folder: _Folder, inside: bool, dependencies: bool) -> set[str]:
        """Adds the guarded names of one folder; returns those that need no further look."""
        done: set[str] = set()
        for name in folder.guarded:
            place = os.path.join(path, name)
            is_folder = name in folder.folders
            if place in self._ignored or (is_folder and is_placeholder(place)):
                done.add(name)
                continue
            if not inside and not dependencies and self._bind(place):
                done.add(name)
            elif (holds := _FOLDER if is_folder else _describe(place)) is not None:
                self._found.known[place] = holds
                if not is_folder and os.path.islink(place):
                    self._bind_target(place)
        return done

    def _bind_target(self, link: str) -> None:
        """What a guarded link leads to in the roots acts by the link's name, and so must stay as it is."""
        target = os.path.realpath(link)
        inside = any(target.startswith(f"{root.rstrip('/')}/") for root in self._found.roots)
        # One that leads to a folder around itself would close that as a whole.
        if inside and target not in self._ignored and not _is_around(target, self._found.roots, link):
            self._bind(target)

    def _bind(self, path: str) -> bool:
        """Whether it is to be bound. A link cannot be, and a file with another name can be written by that."""
        if not self._may_bind or len(self._bound) >= _MAX_BOUND:
            return False
        try:
            status = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode) and not (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            return False
        self._bound[path] = None
        return True


def _is_around(folder: str, roots: tuple[str, ...], path: str) -> bool:
    return folder in _list_above(path) or any(folder == root or folder in _list_above(root) for root in roots)


def _read_folder(path: str, place: str, inside: bool, known: _Folder | None) -> _Folder:
    """What a folder holds, from memory where it has not changed. Raises OSError."""
    now, status = time.time_ns(), os.lstat(path)
    stamp = (status.st_dev, status.st_ino, status.st_ctime_ns, inside)
    if known is not None and known.stamp == stamp:
        return known
    recent = status.st_ctime_ns > now - _RECENT_NS
    stamp = (*stamp[:2], 0, inside) if recent else stamp
    try:
        return _list_folder(path, place, inside, stamp)
    except PermissionError:
        # A command may have closed a folder of its own to hide what is in it.
        _open_own_folder(path)
        return _list_folder(path, place, inside, stamp)


def _open_own_folder(path: str) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.chmod(f"/proc/self/fd/{descriptor}", mode | stat.S_IRWXU)
    finally:
        os.close(descriptor)


def _list_folder(path: str, place: str, inside: bool, stamp: tuple[int, int, int, bool]) -> _Folder:
    folders: list[str] = []
    guarded: list[str] = []
    of_repository: list[str] = []
    count = 0
    with os.scandir(path) as entries:
        for entry in entries:
            count += 1
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
            if inside or _is_guarded(place, name, entry):
                guarded.append(name)
            elif len(name) <= _LONGEST and name.lower() in _REPOSITORY_NAMES:
                of_repository.append(name)
    is_repository = {name.lower() for name in of_repository} >= _BARE_REPOSITORY
    if is_repository:
        guarded += [name for name in of_repository if name.lower() not in _HARMLESS_IN_REPOSITORY]
    return _Folder(stamp, tuple(folders), tuple(guarded), count, is_repository)


def _is_guarded(place: str, name: str, entry: "os.DirEntry[str]") -> bool:
    patterns = _compile_patterns()
    lowered = name.lower() if name.isascii() else None
    if (lowered is None or patterns.last.fullmatch(lowered)) and find_protection_reason(f"{place}/{name}"):
        return True
    if not entry.is_symlink() or (lowered is not None and lowered not in patterns.first):
        return False
    # A link that stands for the folder around a guarded name: whoever writes to its target writes that name.
    return name.startswith(".") or any(
        os.path.lexists(os.path.join(entry.path, rest)) for rest in patterns.first.get(lowered or "", ())
    )


@dataclass(frozen=True, slots=True)
class _Patterns:
    last: re.Pattern[str]
    """What the last part of a guarded name may be."""
    first: dict[str, tuple[str, ...]]
    """Folders around guarded names, each with what is guarded inside."""


@cache
def _compile_patterns() -> _Patterns:
    patterns = list_protected_patterns()
    last = {pattern.rpartition("/")[2] for pattern in patterns}
    first: dict[str, list[str]] = {}
    for pattern in patterns:
        parts = pattern.split("/")
        for number, part in enumerate(parts[:-1], start=1):
            first.setdefault(part, []).append("/".join(parts[number:]))
    return _Patterns(
        re.compile("|".join(re.escape(each).replace(r"\*", ".*") for each in sorted(last)), re.DOTALL),
        {name: tuple(rests) for name, rests in first.items()},
    )


def _describe(path: str) -> str | None:
    """Kind, mode and content of a file, in a few characters; null where it is gone."""
    try:
        status = os.lstat(path)
        mode = f"{status.st_mode:o}"
        if stat.S_ISLNK(status.st_mode):
            return f"{mode} {os.readlink(path)} {_describe_target(path)}"
        if not stat.S_ISREG(status.st_mode):
            return f"{mode} {status.st_ino}"
        if status.st_size > _HASHED_BYTES:
            return f"{mode} {status.st_ino} {status.st_ctime_ns}"
        try:
            return f"{mode} {_digest(path, status)}"
        except (NotRegular, PermissionError):
            return f"{mode} {status.st_ino} {status.st_ctime_ns}"
    except OSError:
        return None


def _describe_target(link: str) -> str | None:
    target = os.path.realpath(link)
    return _describe(target) if os.path.isfile(target) else None


def _digest(path: str, status: os.stat_result) -> str:
    key = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)
    with _lock:
        if (known := _digests.get(key)) is not None:
            return known
    found = hashlib.blake2b(read_regular_file(path, _HASHED_BYTES + 1, follow=False), digest_size=16).hexdigest()
    if status.st_ctime_ns < time.time_ns() - _RECENT_NS:
        with _lock:
            _digests[key] = found
            while len(_digests) > _MAX_DIGESTS:
                _digests.popitem(last=False)
    return found


def set_aside(path: str, root: str) -> str:
    """Renames it to a name that is not guarded; says what came of it."""
    place = _cut_root(path, (root,))
    above = os.path.dirname(_find_topmost(place))
    try:
        source = _open_beneath(root, os.path.dirname(place))
        try:
            target = _open_beneath(root, above)
            try:
                name = os.path.basename(path)
                new = next(_list_free_names(target, above, name))
                _rename(source, name, target, new)
            finally:
                os.close(target)
        finally:
            os.close(source)
    except FileNotFoundError:
        return f"{path} is gone"
    except OSError as error:
        return f"{path} could not be set aside ({error.strerror})"
    return f"{path} is now {root.rstrip('/')}{above.rstrip('/')}/{new}"


def _find_topmost(place: str) -> str:
    """The shortest beginning of a path that is guarded already; the path itself where only the whole is."""
    parts = place.split("/")
    for number in range(2, len(parts)):
        if find_protection_reason("/".join(parts[:number])):
            return "/".join(parts[:number])
    return place


def _open_beneath(root: str, place: str) -> int:
    """A folder below a root, no part of whose path is a link: another command might plant one in between."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(root, flags)
    for part in filter(None, place.split("/")):
        try:
            inner = os.open(part, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _list_free_names(folder: int, place: str, name: str) -> Iterator[str]:
    taken = set(os.listdir(folder))
    plain = re.sub(r"[^\w.-]", "_", name.lstrip("."))[:80]
    for number in range(1, len(taken) + 2):
        for candidate in (f"set-aside.{plain}.{number}", f"set-aside.{number}"):
            if candidate not in taken and not find_protection_reason(f"{place}/{candidate}"):
                yield candidate


def _rename(source: int, name: str, target: int, new: str) -> None:
    try:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        # A command may have closed its own folder.
        for each in (source, target):
            os.fchmod(each, stat.S_IMODE(os.fstat(each).st_mode) | stat.S_IRWXU)
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
