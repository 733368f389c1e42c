"""Which parts of a repository's git folder a command that runs git may write, and which of its changes are set aside.

git writes objects, refs, logs, its index and files with names in capitals. All else of the folder is read-only,
whether it exists or not, since much of it says what git runs: the config, the hooks, `commondir`, which chooses another
config, the todo list of a rebase. After the command, what it has left there beside those is set aside, and so is
every link: git outside would write where it leads. Where the layout is not a plain one, all of it stays read-only.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.fs.regular_file import NotRegular, read_regular_file
from ostler.tools.sandbox.guarded_names import COMMON_DIR, is_placeholder, set_aside

_TREES: Final = ("refs", "logs", "rr-cache")
_WRITTEN: Final = compile_later(
    r"objects|refs|logs|rr-cache|packed-refs|shallow|gc\.(?:pid|log)|(?:shared|next-)?index[\w.-]*|[A-Z][A-Z_]*|.+\.lock"
)
_ABSENT: Final = ("config.worktree", "hooks", "info", "modules", "worktrees", "branches", "remotes", COMMON_DIR)
"""What git would take from there, were it there. The todo list of a rebase git makes and removes itself."""
_MAX_ENTRIES: Final = 20_000
_MAX_CONFIG: Final = 1024 * 1024
_MAX_LINK: Final = 4_096


@dataclass(frozen=True, slots=True)
class GitFolder:
    """How a git folder is given to a command."""

    checkout: str
    """The folder around the `.git`, which gets what is set aside: among git's own files a link could not stay."""
    top: str
    """The folder with HEAD and the index: of a worktree its own."""
    writable: tuple[str, ...]
    kept: tuple[str, ...]
    """Existing ones, inside, that stay read-only."""
    missing: tuple[str, ...] = ()
    """Those that must not be made."""


def plan_repository(git: str) -> GitFolder | None:
    """For the `.git` of a folder that is a root; null where it stays read-only. Blocks."""
    try:
        if not _is_plain(git, git):
            return None
        names = os.listdir(git)
    except (NotRegular, OSError):
        return None
    missing = [name for name in _ABSENT if name not in names or is_placeholder(os.path.join(git, name))]
    if COMMON_DIR in names and COMMON_DIR not in missing:
        return None
    kept = [name for name in names if not _WRITTEN.fullmatch(name) and name not in missing]
    return GitFolder(os.path.dirname(git), git, (git,), _join(git, kept), _join(git, missing))


def plan_worktree(root: str, common: str) -> GitFolder | None:
    """For a root that is a worktree of the repository with this git folder; null as above. Blocks."""
    try:
        link = read_regular_file(os.path.join(root, ".git"), _MAX_LINK, follow=False).decode()
        own = link.removeprefix("gitdir:").strip()
        if os.path.dirname(own) != os.path.join(common, "worktrees") or not _is_plain(own, common):
            return None
        shared = [path for path in _join(common, ("objects", *_TREES)) if os.path.isdir(path)]
        kept = [name for name in os.listdir(own) if not _WRITTEN.fullmatch(name)]
    except (NotRegular, OSError, ValueError):
        return None
    return GitFolder(os.path.dirname(common), own, (own, *shared), _join(own, kept))


def set_aside_git_changes(found: GitFolder) -> list[str]:
    """Renames what a command has left in it and git has no use for. Blocks. Returns a line about each."""
    known = {*found.kept, *found.missing}
    try:
        left = [path for path in _list_left(found) if path not in known]
    except OSError as error:
        return [f"{found.top} could not be looked at ({error})"]
    return [set_aside(path, found.checkout) for path in sorted(left)]


def _list_left(found: GitFolder) -> Iterator[str]:
    for entry in os.scandir(found.top):
        capitals = entry.name.isupper() and entry.is_dir(follow_symlinks=False)
        if entry.is_symlink() or capitals or not _WRITTEN.fullmatch(entry.name):
            yield entry.path
    for folder in found.writable:
        yield from _list_links([folder] if os.path.basename(folder) in _TREES else _join(folder, _TREES))


def _is_plain(own: str, common: str) -> bool:
    """Whether it is laid out as git does it, without links, and has one config alone. Raises NotRegular and OSError."""
    if os.path.realpath(own) != own or os.path.realpath(common) != common:
        return False
    config = read_regular_file(os.path.join(common, "config"), _MAX_CONFIG + 1, follow=False)
    if len(config) > _MAX_CONFIG or b"worktreeconfig" in config.lower():
        return False
    if any(entry.is_symlink() for folder in {own, common} for entry in os.scandir(folder)):
        return False
    return not any(True for folder in {own, common} for _ in _list_links(_join(folder, _TREES)))


def _list_links(folders: Iterable[str]) -> Iterator[str]:
    """Every link below. Raises OSError where there is too much to look at."""
    left = _MAX_ENTRIES
    for folder in folders:
        for place, inner, files in os.walk(folder):
            left -= len(inner) + len(files)
            if left < 0:
                raise OSError("there is too much in it")
            yield from (path for path in _join(place, (*inner, *files)) if os.path.islink(path))


def _join(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, name) for name in names)
