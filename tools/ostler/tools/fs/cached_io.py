"""Files that the kernel has in its memory: looked at without a wait, and so without a trip to a thread.

`openat2` with RESOLVE_CACHED finds a path only where no disk has to be asked, and `preadv2` with RWF_NOWAIT gives only
what is in the page cache. Whatever is not, is on a network, or is no plain file raises WouldWait: a thread does it.
A trip to a thread costs as much as forty such calls, and ten at once fight for the interpreter's lock.
"""

import ctypes
import os
import stat
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

MOST_BYTES: Final = 256 * 1024
"""More than that takes long enough to be worth a thread."""

_OPENAT2: Final = 437  # the same number on every architecture of Linux
_AT_FDCWD: Final = -100
_RESOLVE_CACHED: Final = 0x20
# Where opening a file that is known already asks nobody else: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, overlay, ZFS.
_LOCAL: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x794C7630, 0x2FC12FC1})


class WouldWait(Exception):
    """It cannot be told without waiting for a disk or a network."""


@dataclass(frozen=True, slots=True)
class Content:
    """A whole file, as it was at one moment."""

    place: str
    """Its real path."""
    status: os.stat_result
    data: bytes


def real(path: str) -> str:
    """The path after all links, of something that exists. Raises WouldWait."""
    descriptor = _named(path)
    try:
        return _place(descriptor)
    finally:
        os.close(descriptor)


def is_folder(path: str) -> bool:
    """Of something that exists. Raises WouldWait."""
    named = _named(path)
    try:
        return stat.S_ISDIR(os.fstat(named).st_mode)
    except OSError as error:
        raise WouldWait from error
    finally:
        os.close(named)


def content(path: str) -> Content:
    """A small file that is in memory as a whole. Raises WouldWait."""
    named = _named(path)
    try:
        status = os.fstat(named)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES or not _is_local(named, status.st_dev):
            raise WouldWait
        return Content(_place(named), status, _data(named, status.st_size))
    except OSError as error:
        raise WouldWait from error
    finally:
        os.close(named)


def _data(named: int, size: int) -> bytes:
    # By way of the descriptor: what is opened is what was looked at, whatever the path leads to by now.
    descriptor = os.open(f"/proc/self/fd/{named}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # One byte more, so that a file that has grown meanwhile is noticed.
        buffer = bytearray(size + 1)
        got = os.preadv(descriptor, [buffer], 0, os.RWF_NOWAIT)
    finally:
        os.close(descriptor)
    if got != size:
        raise WouldWait
    return bytes(memoryview(buffer)[:size])


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW: Final = _How(os.O_PATH | os.O_CLOEXEC if sys.platform == "linux" else 0, 0, _RESOLVE_CACHED)
_HOW_BYTES: Final = ctypes.sizeof(_HOW)
_NAMED: Final = ctypes.byref(_HOW)
"""Made once: the kernel only reads it, and making it took as long as the call."""


def _named(path: str) -> int:
    """A descriptor that only names the file: nothing is opened."""
    kernel = _kernel()
    if kernel is None or "\0" in path:
        raise WouldWait
    found = kernel.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), _NAMED, _HOW_BYTES)
    if found < 0:  # not in memory, not there, or an old kernel: a thread finds out which
        raise WouldWait
    return int(found)


def _place(descriptor: int) -> str:
    place = os.readlink(f"/proc/self/fd/{descriptor}")
    # One that was just deleted, or is on no file system of ours, has a name that only looks like a path.
    if not place.startswith("/") or place.endswith(" (deleted)"):
        raise WouldWait
    return place


_devices: Final[dict[int, bool]] = {}


def _is_local(descriptor: int, device: int) -> bool:
    known = _devices.get(device)
    if known is None:
        known = _devices[device] = _file_system(descriptor) in _LOCAL
    return known


def _file_system(descriptor: int) -> int:
    kernel = _kernel()
    assert kernel is not None
    # `struct statfs` begins with its type, a machine word; the rest of it is of no interest.
    told = (ctypes.c_long * 64)()
    return int(told[0]) & 0xFFFFFFFF if kernel.fstatfs(descriptor, ctypes.byref(told)) == 0 else 0


@cache
def _kernel() -> ctypes.PyDLL | None:
    # PyDLL keeps the interpreter's lock: a call of a microsecond is over before another thread could use it.
    return ctypes.PyDLL(None) if sys.platform == "linux" and hasattr(os, "RWF_NOWAIT") else None
