"""A number by which an orphan is known that has dropped everything else of its command.

Variables, group, session, streams and parents can all be left behind: `env -i setsid` does it in a few words. Limits
are inherited by whatever a process starts, and hardly a program looks at that of POSIX message queues, far less changes
it: each command has a little less of it than the daemon, and no two that run have as much.
"""

import itertools
import random
import resource
from collections.abc import Container
from typing import Final

_LIMIT: Final[int | None] = getattr(resource, "RLIMIT_MSGQUEUE", None)
_MOST: Final = 10_000
"""Bytes that nobody misses."""
# Not from the beginning: commands of an earlier daemon may still run.
_numbers: Final = itertools.count(random.randrange(_MOST))  # noqa: S311 - nobody has to guess it


def give(pid: int, taken: Container[int]) -> int | None:
    """A badge for a process that has not begun yet; null where it cannot have one."""
    if _LIMIT is None:
        return None
    try:
        mine, _ = resource.getrlimit(_LIMIT)
        _, most = resource.prlimit(pid, _LIMIT)
        if mine < 2 * _MOST:
            return None
        badge = next(each for each in (mine - 1 - number % _MOST for number in _numbers) if each not in taken)
        resource.prlimit(pid, _LIMIT, (badge, most))
    except (OSError, ValueError):
        return None
    return badge


def of(pid: int) -> int | None:
    """Also of a process that has none: then it is no command's."""
    if _LIMIT is None:
        return None
    try:
        return resource.prlimit(pid, _LIMIT)[0]
    except OSError:
        return None
