"""What a process of ours may take that looks at a file which anybody may have made."""

import contextlib
import json
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

MEMORY: Final = 1024**3
CPU_SECONDS: Final = 20


def bound_ourselves() -> None:
    """To be called before anything is looked at: a child cannot be bounded from outside once it runs."""
    limits = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # not every system has each of them
            resource.setrlimit(kind, (most, most))


def answer(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Bounded, give the work what is wanted, and tell what it found."""
    bound_ourselves()
    try:
        told = work(json.loads(sys.argv[1]))
    except MemoryError:
        told = {"trouble": "memory"}
    sys.stdout.write(json.dumps(told))
    sys.stdout.flush()
