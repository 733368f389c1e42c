"""The folder of a repository that holds its worktrees: never a link, and locked while one is made or removed."""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import Final

from ostler.server.worktrees.git import GitFailed

PARTS: Final = (".ostler", "worktrees")
RELATIVE: Final = "/".join(PARTS)
_LOCK_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.02


def get_worktree_folder(main: str) -> str:
    return os.path.join(main, *PARTS)


def check_no_link(main: str) -> None:
    """Raises GitFailed where a part of the folder is something else than a folder."""
    path = main
    for part in PARTS:
        path = os.path.join(path, part)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise GitFailed(
                    f"{path} is a link or a file, and worktrees are made only in a folder of the repository."
                )


@contextlib.contextmanager
def lock_worktree_folder(main: str, umask: int) -> Iterator[int]:
    """Makes the folder where it is missing, and holds its lock; yields the open folder. Blocks. Raises GitFailed.

    The lock is the system's, on the folder itself: it ends with the last process that has the folder open, so a git
    that is given it holds the lock until it ends, though its daemon has died.
    """
    made: list[str] = []
    folder = -1
    try:
        folder = _open_locked(main, umask, made)
        yield folder
    except OSError as error:
        raise GitFailed(f"{get_worktree_folder(main)} cannot be used: {error.strerror}.") from None
    finally:
        # Nothing is left where nothing was made; a folder with something in it stays.
        for path in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        if folder >= 0:
            os.close(folder)


def _open_locked(main: str, umask: int, made: list[str]) -> int:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        check_no_link(main)
        _make_parts(main, umask, made)
        folder = os.open(get_worktree_folder(main), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _wait_for_lock(folder, deadline, main)
            if _is_same(folder, get_worktree_folder(main)):
                return folder
        except BaseException:
            os.close(folder)
            raise
        os.close(folder)  # somebody removed it while this one waited


def _make_parts(main: str, umask: int, made: list[str]) -> None:
    path = main
    for part in PARTS:
        path = os.path.join(path, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            made.append(path)
            # The daemon's own umask is stricter than the person's.
            os.chmod(path, 0o777 & ~umask)


def _wait_for_lock(folder: int, deadline: float, main: str) -> None:
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise GitFailed(f"Another worktree of {main} is being made or removed, and takes long.") from None
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _is_same(folder: int, path: str) -> bool:
    try:
        here, there = os.fstat(folder), os.lstat(path)
    except FileNotFoundError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
