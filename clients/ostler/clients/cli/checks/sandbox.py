"""Whether commands can be sandboxed on this machine, found out by doing it, and whether they have to be."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.checks.base import Finding
from ostler.protocol.places import Places

# As the daemon starts it, with nothing of its own in the way.
_FLAGS: Final = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session")
_TRIAL: Final = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108
_SECONDS: Final = 10.0
_UNTIL_FIXED: Final = "Until then the table of commands alone says what only reads, and commands run outside."
_INSTALL: Final = "Install bubblewrap 0.8 or newer."
_KERNEL_SWITCHES: Final = (
    ("/proc/sys/user/max_user_namespaces", "0", "Run: sysctl user.max_user_namespaces=15000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "Run: sysctl kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "Give bwrap an AppArmor profile that allows userns, or run: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""A file of the kernel's, the value that forbids user namespaces, and what mends it."""


def check_sandbox(places: Places) -> Iterator[Finding]:
    """It works, or why not; a failure only where the configuration says that nothing runs without it."""
    mode = _find_mode(places)
    if mode == "off":
        yield Finding("ok", "sandbox", "off, as [sandbox] mode says: commands run with your own powers")
        return
    found, mend = _try_sandbox()
    if mend is None:
        yield Finding("ok", "sandbox", f"{found}, mode {mode}")
    elif mode == "required":
        yield Finding("fail", "sandbox", f"[sandbox] mode is required, so no command runs: {found}", mend)
    else:
        yield Finding("warn", "sandbox", found, f"{mend} {_UNTIL_FIXED}")


def _try_sandbox() -> tuple[str, str | None]:
    """What was found, and how to mend it; nothing to mend where it works."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux only", "Use Linux, or a Linux container, to shut commands in."
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "there is no bubblewrap", _INSTALL
    version = _run([bwrap, "--version"])[1]
    code, words = _run([bwrap, *_FLAGS, *_TRIAL, "--", shutil.which("true") or "/bin/true"])
    if code == 0:
        return f"{version or bwrap} works as {'root' if os.getuid() == 0 else 'a plain user'}", None
    return f"{version or bwrap} does not start: {words or 'it says nothing'}", _suggest_fix(words)


def _run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(  # noqa: S603 - a trial start, with flags of our own
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {_SECONDS:g} s"
    except OSError as error:
        return -1, str(error.strerror)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, lines[-1][:300] if lines else ""


def _suggest_fix(words: str) -> str:
    if "nknown option" in words:
        return _INSTALL
    for file, forbids, mend in _KERNEL_SWITCHES:
        if _read_content(file) == forbids and (os.getuid() != 0 or "max_user" in file):
            return mend
    if any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))):
        return (
            "Start the container so that it may make user namespaces: "
            "--security-opt seccomp=unconfined --security-opt systempaths=unconfined."
        )
    return "See what the message says; user namespaces have to be allowed."


def _read_content(file: str) -> str:
    try:
        with open(file, encoding="ascii", errors="replace") as opened:
            return opened.read(4096).strip()
    except OSError:
        return ""


def _find_mode(places: Places) -> str:
    """As the daemon that runs has it; else as the next one would."""
    value = quick_rpc.call(places, "config/get", {"key": "sandbox.mode"}).get("value")
    return str(value) if value is not None else _read_configured_mode(places)


def _read_configured_mode(places: Places) -> str:
    import tomllib

    from pydantic import ValidationError

    from ostler.protocol.config import Config

    try:
        return Config.model_validate(tomllib.loads(places.config_file.read_text("utf-8"))).sandbox.mode
    except (OSError, ValueError, ValidationError):
        return Config().sandbox.mode  # what is wrong with the file is told by the check of the file
