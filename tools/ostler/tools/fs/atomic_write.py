"""Writes files atomically, and through no link that was planted meanwhile."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from typing import Final

_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEM_BYTES: Final = 100


class PathChanged(Exception):
    """The file, or a folder of its path, is not what it was when the call began."""


def save(path: str, data: bytes, umask: int) -> os.stat_result:
    """Writes the file at a real path, its folders too; mode, owner and attributes of an older one are kept."""
    return _save(path, data, umask, lambda older: None)


def save_if_unchanged(path: str, data: bytes, umask: int, known: os.stat_result | None) -> os.stat_result:
    """The same, but only if the file has not changed since `known`; None: only if there is no file."""

    def check(older: os.stat_result | None) -> None:
        if known is None and older is not None:
            raise PathChanged(f"{path} was created by somebody else meanwhile.")
        if known is not None and (older is None or _read_signature(older) != _read_signature(known)):
            raise PathChanged(f"{path} was changed by somebody else meanwhile.")

    return _save(path, data, umask, check)


def _save(path: str, data: bytes, umask: int, check: Callable[[os.stat_result | None], None]) -> os.stat_result:
    with _open_folder(os.path.dirname(path), umask) as folder:
        name = os.path.basename(path)
        older = _read_status(name, folder)
        if older is not None and not stat.S_ISREG(older.st_mode):
            raise PathChanged(f"{path} is no regular file any more.")
        check(older)
        if older is not None:
            _check_writable(name, folder)
        if older is not None and not _can_keep_owner(older):
            return _save_in_place(name, folder, data)
        return _save_beside(name, folder, data, older, umask)


def _check_writable(name: str, folder: int) -> None:
    """Replacing a file needs permission for its folder only: so a file that may not be written is checked for here."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program: it continues with the old file
            raise


def _read_signature(status: os.stat_result) -> tuple[int, ...]:
    # Not the inode: some file systems give the same file another one from one stat to the next.
    return status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _open_folder(path: str, umask: int) -> Iterator[int]:
    """A descriptor, opened component by component, so that none can be a link; missing folders are created.

    They are removed again where the write fails.
    """
    here = os.open("/", _FOLDER_FLAGS)
    above_made: list[tuple[int, str]] = []
    try:
        for component in path.strip("/").split("/") if path != "/" else []:
            below, made = _enter_folder(here, component, umask, path)
            if made:
                above_made.append((here, component))
            else:
                os.close(here)
            here = below
        yield here
    except BaseException:
        for above, component in reversed(above_made):
            with contextlib.suppress(OSError):  # another process may have put something there meanwhile
                os.rmdir(component, dir_fd=above)
        raise
    finally:
        for descriptor in (here, *(above for above, _ in above_made)):
            os.close(descriptor)


def _enter_folder(here: int, component: str, umask: int, path: str) -> tuple[int, bool]:
    """Opens the folder below; also, whether it was created."""
    try:
        return os.open(component, _FOLDER_FLAGS, dir_fd=here), False
    except FileNotFoundError:
        made = _make_folder(component, here)
    except NotADirectoryError:
        raise PathChanged(f"{component!r} in {path} is no folder.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathChanged(f"{component!r} in {path} has become a link.") from None
        raise
    below = os.open(component, _FOLDER_FLAGS, dir_fd=here)
    # The daemon's own umask is stricter than what the person wants for their projects.
    os.chmod(component, 0o777 & ~umask, dir_fd=here)
    return below, made


def _make_folder(component: str, here: int) -> bool:
    """False where it exists by now."""
    try:
        os.mkdir(component, 0o700, dir_fd=here)
    except FileExistsError:
        return False
    return True


def _read_status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _can_keep_owner(older: os.stat_result) -> bool:
    """Whether a new file can belong to whom the old one belongs."""
    if os.geteuid() == 0:
        return True
    return older.st_uid == os.geteuid() and older.st_gid in {os.getegid(), *os.getgroups()}


def _save_beside(name: str, folder: int, data: bytes, older: os.stat_result | None, umask: int) -> os.stat_result:
    # Cut in bytes, which is what file systems count: a name of a hundred letters may have three hundred.
    stem = os.fsdecode(os.fsencode(name)[:_STEM_BYTES])
    temporary = f".{stem}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if older is None:
                os.fchmod(descriptor, 0o666 & ~umask)
            else:
                _keep_owner_and_mode(name, folder, descriptor, older)
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_folder(folder)
    return status


def _keep_owner_and_mode(name: str, folder: int, descriptor: int, older: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (older.st_uid, older.st_gid):
        os.fchown(descriptor, older.st_uid, older.st_gid)
    # After the owner: changing that clears the set-id bits.
    os.fchmod(descriptor, stat.S_IMODE(older.st_mode))
    _keep_attributes(name, folder, descriptor)


def _keep_attributes(name: str, folder: int, descriptor: int) -> None:
    """Access lists and labels, as far as the file system has them and lets us."""
    if not hasattr(os, "listxattr"):
        return
    try:
        older = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(older):
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(older, attribute))
    finally:
        os.close(older)


def _save_in_place(name: str, folder: int, data: bytes) -> os.stat_result:
    """A file that belongs to somebody else keeps its owner only this way."""
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "wb") as file:
        _reserve_space(descriptor, len(data))
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(descriptor)
        return os.fstat(descriptor)


def _reserve_space(descriptor: int, size: int) -> None:
    """Allocates the space first: a disk that is full halfway would leave neither the old content nor the new one."""
    if not size or not hasattr(os, "posix_fallocate"):
        return
    before = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, before)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise  # any other error: the file system cannot reserve space


def _sync_folder(folder: int) -> None:
    # Some file systems cannot sync a folder; the file itself is safe by then.
    with contextlib.suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
