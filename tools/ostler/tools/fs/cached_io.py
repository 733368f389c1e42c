"""Non-blocking reads from the page cache: files that the kernel has in memory are read without a thread.

`openat2` with RESOLVE_CACHED resolves a path only without disk access, and `preadv2` with RWF_NOWAIT reads only what is
in the page cache. Whatever is not, is on a network, or is no regular file raises WouldBlock: then a thread does it.
Handing work to a thread costs as much as forty such calls, and ten at once fight for the interpreter's lock.
"""

import ctypes
import os
import stat
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

MAX_BYTES: Final = 256 * 1024
"""More than that takes long enough to be worth a thread."""

_OPENAT2: Final = 437  # the same number on every architecture of Linux
_AT_FDCWD: Final = -100
_RESOLVE_CACHED: Final = 0x20
# Where opening a file that is cached needs no network: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, overlay, ZFS.
_LOCAL: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x794C7630, 0x2FC12FC1})


class WouldBlock(Exception):
    """It cannot be done without waiting for a disk or a network."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A whole file at one moment."""

    real_path: str
    """Its real path."""
    status: os.stat_result
    data: bytes


def resolve_path(path: str) -> str:
    """The path with all links resolved, of something that exists. Raises WouldBlock."""
    descriptor = _open_path(path)
    try:
        return _read_real_path(descriptor)
    finally:
        os.close(descriptor)


def is_folder(path: str) -> bool:
    """Whether something that exists is a folder. Raises WouldBlock."""
    named = _open_path(path)
    try:
        return stat.S_ISDIR(os.fstat(named).st_mode)
    except OSError as error:
        raise WouldBlock from error
    finally:
        os.close(named)


def read_file(path: str) -> FileContent:
    """A small file, all of which is in the page cache. Raises WouldBlock."""
    named = _open_path(path)
    try:
        status = os.fstat(named)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES or not _is_local(named, status.st_dev):
            raise WouldBlock
        return FileContent(_read_real_path(named), status, _read_cached(named, status.st_size))
    except OSError as error:
        raise WouldBlock from error
    finally:
        os.close(named)


def _read_cached(named: int, size: int) -> bytes:
    # Through the descriptor: the file that is opened is the one that was checked, whatever the path leads to by now.
    descriptor = os.open(f"/proc/self/fd/{named}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # One byte more, so that a file that has grown meanwhile is noticed.
        buffer = bytearray(size + 1)
        got = os.preadv(descriptor, [buffer], 0, os.RWF_NOWAIT)
    finally:
        os.close(descriptor)
    if got != size:
        raise WouldBlock
    return bytes(memoryview(buffer)[:size])


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_OPEN_HOW: Final = _OpenHow(os.O_PATH | os.O_CLOEXEC if sys.platform == "linux" else 0, 0, _RESOLVE_CACHED)
_OPEN_HOW_BYTES: Final = ctypes.sizeof(_OPEN_HOW)
_OPEN_HOW_REF: Final = ctypes.byref(_OPEN_HOW)
"""Created once: the kernel only reads it, and creating it took as long as the call."""


def _open_path(path: str) -> int:
    """A descriptor made with O_PATH: it names the file without opening it."""
    kernel = _load_libc()
    if kernel is None or "\0" in path:
        raise WouldBlock
    found = kernel.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), _OPEN_HOW_REF, _OPEN_HOW_BYTES)
    if found < 0:  # not cached, not there, or an old kernel: a thread finds out which
        raise WouldBlock
    return int(found)


def _read_real_path(descriptor: int) -> str:
    place = os.readlink(f"/proc/self/fd/{descriptor}")
    # One that was just deleted, or is on no file system of ours, has a name that only looks like a path.
    if not place.startswith("/") or place.endswith(" (deleted)"):
        raise WouldBlock
    return place


_devices: Final[dict[int, bool]] = {}


def _is_local(descriptor: int, device: int) -> bool:
    known = _devices.get(device)
    if known is None:
        known = _devices[device] = _read_file_system_type(descriptor) in _LOCAL
    return known


def _read_file_system_type(descriptor: int) -> int:
    kernel = _load_libc()
    assert kernel is not None
    # `struct statfs` begins with its type, a machine word; the rest of it is of no interest.
    buffer = (ctypes.c_long * 64)()
    return int(buffer[0]) & 0xFFFFFFFF if kernel.fstatfs(descriptor, ctypes.byref(buffer)) == 0 else 0


@cache
def _load_libc() -> ctypes.PyDLL | None:
    # PyDLL keeps the interpreter's lock: a call of a microsecond is over before another thread could use it.
    return ctypes.PyDLL(None) if sys.platform == "linux" and hasattr(os, "RWF_NOWAIT") else None
