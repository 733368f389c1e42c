"""Keeps a file of ours out of a repository's commits, through `.git/info/exclude`, which is not committed itself."""

import contextlib
import os
from typing import Final

from ostler.server.settings.safe_read import Unreadable, read_bytes
from ostler.tools.fs import atomic_write

_MAX_LINK: Final = 4_096


def exclude_from_git(repository: str, path: str, umask: int) -> None:
    """Adds the path to `.git/info/exclude`; does nothing where the repository is laid out in an unknown way."""
    folder = _find_git_folder(os.path.join(repository, ".git"))
    if folder is None:
        return
    file = os.path.join(folder, "info", "exclude")
    line = "/" + path
    try:
        data = read_bytes(file) or b""
    except Unreadable:
        return
    if line.encode() in data.split(b"\n"):
        return
    newline = b"" if not data or data.endswith(b"\n") else b"\n"
    # Failing to exclude the file must not keep the rule from being written.
    with contextlib.suppress(OSError, atomic_write.PathChanged):
        atomic_write.save(file, data + newline + line.encode() + b"\n", umask)


def _find_git_folder(dot_git: str) -> str | None:
    """The repository's own folder; of a worktree, the one that all of them share."""
    if os.path.islink(dot_git):
        return None
    if os.path.isdir(dot_git):
        return dot_git if _is_git_folder(dot_git) else None
    worktree = _read_line(dot_git, "gitdir: ")
    # A file can name any folder: only one that names the file in turn is a worktree's.
    if worktree is None or _read_line(os.path.join(worktree, "gitdir")) != os.path.realpath(dot_git):
        return None
    common = _read_line(os.path.join(worktree, "commondir"))
    folder = os.path.realpath(os.path.join(worktree, common)) if common else None
    return folder if folder and _is_git_folder(folder) else None


def _is_git_folder(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "HEAD")) and not os.path.islink(os.path.join(folder, "info"))


def _read_line(file: str, prefix: str = "") -> str | None:
    """The one line of a small file."""
    try:
        data = read_bytes(file)
    except Unreadable:
        return None
    text = os.fsdecode(data or b"").strip()
    return text.removeprefix(prefix) if text.startswith(prefix) and 0 < len(text) < _MAX_LINK else None
