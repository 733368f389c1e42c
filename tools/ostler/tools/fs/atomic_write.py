"""Files written whole or not at all, through no link that was planted in between."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from typing import Final

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEM_BYTES: Final = 100


class Replaced(Exception):
    """The file, or a folder of its path, is not what it was when the call began."""


def save(path: str, data: bytes, umask: int) -> os.stat_result:
    """Writes the file at a real path, its folders too; mode, owner and attributes of an older one are kept."""
    return _save(path, data, umask, lambda older: None)


def save_over(path: str, data: bytes, umask: int, known: os.stat_result | None) -> os.stat_result:
    """The same, but only over what was there when the data was made; null: over nothing."""

    def check(older: os.stat_result | None) -> None:
        if known is None and older is not None:
            raise Replaced(f"{path} was created by somebody else meanwhile.")
        if known is not None and (older is None or _marks(older) != _marks(known)):
            raise Replaced(f"{path} was changed by somebody else meanwhile.")

    return _save(path, data, umask, check)


def _save(path: str, data: bytes, umask: int, check: Callable[[os.stat_result | None], None]) -> os.stat_result:
    with _open_folder(os.path.dirname(path), umask) as folder:
        name = os.path.basename(path)
        older = _status(name, folder)
        if older is not None and not stat.S_ISREG(older.st_mode):
            raise Replaced(f"{path} is no regular file any more.")
        check(older)
        if older is not None:
            _see_whether_it_may_be_written(name, folder)
        if older is not None and not _can_keep_owner(older):
            return _save_in_place(name, folder, data)
        return _save_beside(name, folder, data, older, umask)


def _see_whether_it_may_be_written(name: str, folder: int) -> None:
    """To put another file in its place needs only the folder, but somebody may want this one to stay as it is."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a program that runs: it goes on with the old one
            raise


def _marks(status: os.stat_result) -> tuple[int, ...]:
    # Not its number: some file systems give the same file another one from one look to the next.
    return status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _open_folder(path: str, umask: int) -> Iterator[int]:
    """A descriptor reached step by step, so that no component can be a link; what is missing is made.

    What was made goes again where that for which it was made fails.
    """
    here = os.open("/", _FOLDER)
    above_made: list[tuple[int, str]] = []
    try:
        for component in path.strip("/").split("/") if path != "/" else []:
            below, made = _step(here, component, umask, path)
            if made:
                above_made.append((here, component))
            else:
                os.close(here)
            here = below
        yield here
    except BaseException:
        for above, component in reversed(above_made):
            with contextlib.suppress(OSError):  # somebody else may have put something there meanwhile
                os.rmdir(component, dir_fd=above)
        raise
    finally:
        for descriptor in (here, *(above for above, _ in above_made)):
            os.close(descriptor)


def _step(here: int, component: str, umask: int, path: str) -> tuple[int, bool]:
    """The folder below, and whether it was made."""
    try:
        return os.open(component, _FOLDER, dir_fd=here), False
    except FileNotFoundError:
        made = _make(component, here)
    except NotADirectoryError:
        raise Replaced(f"{component!r} in {path} is no folder.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Replaced(f"{component!r} in {path} has become a link.") from None
        raise
    below = os.open(component, _FOLDER, dir_fd=here)
    # The daemon's own mask is stricter than what the person wants for their projects.
    os.chmod(component, 0o777 & ~umask, dir_fd=here)
    return below, made


def _make(component: str, here: int) -> bool:
    """False where somebody else was faster."""
    try:
        os.mkdir(component, 0o700, dir_fd=here)
    except FileExistsError:
        return False
    return True


def _status(name: str, folder: int) -> os.stat_result | None:
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
                _keep(name, folder, descriptor, older)
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_folder(folder)
    return status


def _keep(name: str, folder: int, descriptor: int, older: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (older.st_uid, older.st_gid):
        os.fchown(descriptor, older.st_uid, older.st_gid)
    # After the owner, whose change takes the set-id bits away.
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
        _make_room(descriptor, len(data))
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(descriptor)
        return os.fstat(descriptor)


def _make_room(descriptor: int, size: int) -> None:
    """A disk that turns out to be full halfway would leave neither the old content nor the new one."""
    if not size or not hasattr(os, "posix_fallocate"):
        return
    before = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, before)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise  # whatever else it is, the file system cannot tell beforehand


def _sync_folder(folder: int) -> None:
    # Some file systems cannot; the file itself is safe by then.
    with contextlib.suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
