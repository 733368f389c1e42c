"""Resource limits of a worker process for untrusted files, and its main function."""

import contextlib
import json
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

MEMORY: Final = 1024**3
CPU_SECONDS: Final = 20


def apply_limits() -> None:
    """Sets the limits of this process. To be called before the file is read: they cannot be set from outside later."""
    limits = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # not every system has each of them
            resource.setrlimit(kind, (most, most))


def run_worker(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Applies the limits, runs the work with the request from the command line, and prints its answer as JSON."""
    apply_limits()
    try:
        result = work(json.loads(sys.argv[1]))
    except MemoryError:
        result = {"trouble": "memory"}
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
