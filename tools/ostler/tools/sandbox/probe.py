"""Probes whether the sandbox works on this machine, by starting it, and explains why not."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from ostler.tools.sandbox.environment import confine_environment
from ostler.tools.sandbox.executables import resolve_program
from ostler.tools.sandbox.kernel import seccomp
from ostler.tools.tool_config import Support

# No --die-with-parent: background tasks outlive the daemon, and what is left over is ended by us. As root too: without
# --cap-drop a root sandbox can remount itself writable.
FLAGS: Final = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session")
_TRIAL: Final = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108
_TIMEOUT_SECONDS: Final = 10.0
_OLDEST: Final = (0, 8)
"""The first bwrap that knows --disable-userns."""


def probe_sandbox(path: str | None = None) -> Support:
    """Starts bwrap with our flags. Blocks, for some milliseconds where it works."""
    as_root = os.getuid() == 0
    if sys.platform != "linux":
        return Support(False, "bubblewrap is for Linux only.", as_root=as_root)
    bwrap = resolve_program("bwrap", os.environ.get("PATH", "") if path is None else path, ())
    forbidden = _find_forbidding_setting()
    if bwrap is None:
        reason = "bwrap is not installed: install the package bubblewrap."
        return Support(False, reason, user_namespaces=forbidden is None, as_root=as_root)
    version = _run([bwrap, "--version"])[1].removeprefix("bubblewrap").strip()
    trial = [*_TRIAL, "--", resolve_program("true", "", ()) or "/bin/true"]
    code, words = _run([bwrap, *FLAGS, *trial])
    reason = "" if code == 0 else _explain_failure(words, version, forbidden)
    with seccomp.open_filter(unix_sockets=False) as given:
        filters = code == 0 and bool(given) and _run([bwrap, *FLAGS, "--seccomp", str(given[0]), *trial], given)[0] == 0
    return Support(code == 0, reason, bwrap, version, forbidden is None, as_root, filters)


def _run(arguments: list[str], inherited: Sequence[int] = ()) -> tuple[int, str]:
    try:
        done = subprocess.run(  # noqa: S603 - bwrap from outside the roots, with our own flags
            arguments,
            env=confine_environment(os.environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            pass_fds=inherited,
        )
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {_TIMEOUT_SECONDS:g} s"
    except OSError as error:
        return -1, f"it cannot be started: {error.strerror}"
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def _explain_failure(words: str, version: str, forbidden: str | None) -> str:
    message = words.splitlines()[-1].removeprefix("bwrap: ")[:300] if words else "no message"
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers and numbers < _OLDEST:
        return f"bwrap {version} is too old: 0.8 or newer is needed ({message})."
    if forbidden is not None:
        return f"{forbidden} ({message})"
    if _is_in_container():
        return (
            f"This container forbids it ({message}): start it with a seccomp profile that allows user namespaces and "
            "with /proc unmasked (--security-opt seccomp=unconfined --security-opt systempaths=unconfined)."
        )
    return f"bwrap does not start here: {message}."


_SETTINGS: Final = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000", False),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1", True),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
        "an AppArmor profile for bwrap that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        True,
    ),
)  # fmt: skip
"""A file of the kernel's, the value that forbids, what mends it, and whether it binds only those who are not root."""


def _find_forbidding_setting() -> str | None:
    for file, value, mend, not_root in _SETTINGS:
        if _read_setting(file) == value and not (not_root and os.getuid() == 0):
            name = file.removeprefix("/proc/sys/").replace("/", ".")
            return f"The kernel's setting {name} = {value} forbids user namespaces; to allow them: {mend}."
    return None


def _read_setting(file: str) -> str:
    try:
        with open(file, encoding="ascii", errors="replace") as opened:
            return opened.read(4096).strip()
    except OSError:
        return ""


def _is_in_container() -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")
    return any(map(os.path.exists, marks)) or "container" in os.environ


def describe_support(support: Support) -> list[tuple[str, bool, str]]:
    """For `ostler doctor`: the name of each check, whether it passed, and details."""
    who = "as root" if support.as_root else "as a plain user"
    installed = f"{support.bwrap} {support.version}" if support.bwrap else "not found: install the package bubblewrap"
    forbidden = None if support.user_namespaces else _find_forbidding_setting()
    outcome = (
        f"it works {who}"
        if support.works
        else f"{support.reason} Until then the table alone decides which commands are read-only, and they run outside."
    )
    filtered = "it is loaded" if support.filters else "it is not loaded: commands can make Unix sockets"
    return [
        ("bubblewrap", support.bwrap is not None, installed),
        ("user namespaces", support.user_namespaces, forbidden or "the kernel's settings allow them"),
        ("seccomp filter", support.filters, filtered),
        ("sandbox", support.works, outcome),
    ]
