"""Tags a command's processes with an rlimit, which identifies an orphan that has dropped everything else.

Variables, group, session, streams and parents can all be left behind: `env -i setsid` does it in a few words. Limits
are inherited by whatever a process starts, and hardly a program looks at that of POSIX message queues, far less changes
it: each command has a little less of it than the daemon, and no two that run have as much.
"""

import itertools
import random
import resource
from collections.abc import Container
from typing import Final

_RLIMIT: Final[int | None] = getattr(resource, "RLIMIT_MSGQUEUE", None)
_MAX_TAGS: Final = 10_000
"""How many tags there are: bytes of the limit that nobody misses."""
# Not from the beginning: commands of an earlier daemon may still run.
_numbers: Final = itertools.count(random.randrange(_MAX_TAGS))  # noqa: S311 - nobody has to guess it


def set_tag(pid: int, taken: Container[int]) -> int | None:
    """Sets the tag of a process that has not begun yet; null where it cannot have one."""
    if _RLIMIT is None:
        return None
    try:
        mine, _ = resource.getrlimit(_RLIMIT)
        _, most = resource.prlimit(pid, _RLIMIT)
        if mine < 2 * _MAX_TAGS:
            return None
        tag = next(each for each in (mine - 1 - number % _MAX_TAGS for number in _numbers) if each not in taken)
        resource.prlimit(pid, _RLIMIT, (tag, most))
    except (OSError, ValueError):
        return None
    return tag


def read_tag(pid: int) -> int | None:
    """The tag of a process; of one without a tag the plain limit, which is no command's."""
    if _RLIMIT is None:
        return None
    try:
        return resource.prlimit(pid, _RLIMIT)[0]
    except OSError:
        return None
