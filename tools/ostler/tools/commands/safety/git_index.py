"""Looks for submodules in git's index: git would run in them, with their own configuration."""

import glob
import os
import stat
import time
from functools import lru_cache
from typing import Final

_MAX_BYTES: Final = 64 * 1024 * 1024
_SETTLED_NS: Final = 2_000_000_000
"""As for the answers of git: what changed so recently may change again without another time or size."""
_HEADER: Final = 12
_MODE: Final = 26
"""Of an entry: four times, two numbers and an unused half of a word stand before the mode."""
_NUMBERS: Final = 40
"""What stands before the hash."""
_KIND: Final = 0xF0
_GITLINK: Final = 0xE0
_EXTENDED: Final = 0x40
"""Two more bytes of flags follow."""
_VERSIONS: Final = frozenset({2, 3, 4})
_PACKED_NAMES: Final = 4
"""From this version on a name is what differs from the one before it."""


def may_hold_submodules(git_dir: str, hash_size: int) -> bool:
    """Whether an index has an entry for a submodule, or cannot be read to its end. Blocks. Raises OSError."""
    shared = glob.glob(os.path.join(glob.escape(git_dir), "sharedindex.*"))
    return any(
        _may_hold(path, hash_size) for path in (os.path.join(git_dir, "index"), *shared) if os.path.lexists(path)
    )


def _may_hold(path: str, hash_size: int) -> bool:
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
        return True
    stamp = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
    if max(facts.st_mtime_ns, facts.st_ctime_ns) > time.time_ns() - _SETTLED_NS:
        return _read(path, hash_size)
    return _read_settled(path, hash_size, stamp)


@lru_cache(maxsize=256)
def _read_settled(path: str, hash_size: int, _stamp: tuple[int, ...]) -> bool:
    return _read(path, hash_size)


def _read(path: str, hash_size: int) -> bool:
    with open(path, "rb") as file:
        data = file.read(_MAX_BYTES)
    try:
        return _find_gitlink(data, hash_size)
    except (IndexError, ValueError):
        # It ends in the middle of an entry: git may see more in it than we do.
        return True


def _find_gitlink(data: bytes, hash_size: int) -> bool:
    """Whether an entry is a submodule. Raises IndexError or ValueError where the entries cannot be told apart."""
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in _VERSIONS:
        raise ValueError(version)
    place, flags = _HEADER, _NUMBERS + hash_size
    for _ in range(count):
        if data[place + _MODE] & _KIND == _GITLINK:
            return True
        name = place + flags + (4 if data[place + flags] & _EXTENDED else 2)
        if version < _PACKED_NAMES:
            # Up to eight zero bytes follow, so that the next one begins at a multiple of eight.
            place += (data.index(0, name) - place + 8) & ~7
            continue
        while data[name] & 0x80:
            name += 1
        place = data.index(0, name + 1) + 1
    return False
