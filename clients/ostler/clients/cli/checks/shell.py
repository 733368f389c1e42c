"""Whether the person's own shell starts, since commands get their environment from it."""

import contextlib
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from typing import Final

from ostler.clients.cli.checks.base import Finding
from ostler.protocol.places import Places

_SECONDS: Final = 5.0
"""As long as the daemon waits."""
_NOBODYS: Final = frozenset({"", "nologin", "false", "true", "sync"})
_INSTEAD: Final = "Until then commands have the environment of bash, or of the daemon itself."


def check_shell(places: Places) -> Iterator[Finding]:
    shell = _find_shell()
    if os.path.basename(shell) in _NOBODYS:
        yield Finding("ok", "shell", "no login shell; commands have the environment of bash")
    elif not os.access(shell, os.X_OK):
        yield Finding("warn", "shell", f"there is no {shell}", f"Install it, or set SHELL to another. {_INSTEAD}")
    elif _ends_in_time([shell, "-l", "-i", "-c", "exit"]):
        yield Finding("ok", "shell", f"commands have the environment of {shell}")
    else:
        mend = f"See what its start files wait for. {_INSTEAD}"
        yield Finding("warn", "shell", f"{shell} takes longer than {_SECONDS:g} s to start", mend)


def _find_shell() -> str:
    if os.path.isabs(given := os.environ.get("SHELL", "")):
        return given
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return ""


def _ends_in_time(arguments: list[str]) -> bool:
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 - the person's own shell
        arguments, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return True
