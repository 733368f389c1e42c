"""Which of the sandbox's promises this kernel keeps: a line for each, found out by trying or by asking it."""

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ostler.clients.cli.checks.base import Finding
from ostler.clients.sdk.address import read_daemon_file
from ostler.protocol.places import Places

_MACHINES: Final = {"x86_64": "x86-64", "aarch64": "arm64"}
"""Those that the daemon has a table of system calls for."""
_ALLOW_ALL: Final = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF_0000)
_LANDLOCK_CREATE_RULESET: Final = 444
_NAMED_SOCKETS_ABI: Final = 9
_SECONDS: Final = 10.0
_COUNTS_BY_NAMESPACE: Final = (5, 14)
_SWITCHES: Final = (
    ("/proc/sys/user/max_user_namespaces", "0", False),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", True),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", True),
)
"""A file of the kernel's, the value that forbids user namespaces, and whether it binds only those who are not root."""


def check_kernel(places: Places) -> Iterator[Finding]:
    if sys.platform != "linux":
        return
    yield _check_namespaces()
    yield _check_filter()
    yield _check_landlock()
    yield _check_memory(places)
    yield _check_processes()


def _check_namespaces() -> Finding:
    for file, forbids, not_root in _SWITCHES:
        if _read(file) == forbids and not (not_root and os.getuid() == 0):
            return Finding("warn", "userns", f"{file} is {forbids}: no user namespaces", f"Change {file}.")
    return Finding("ok", "userns", "user namespaces are allowed")


def _check_filter() -> Finding:
    machine = platform.machine()
    known = _MACHINES.get(machine)
    if known is None:
        found = f"there is no filter of system calls for {machine}: sandboxed commands can make Unix sockets"
        return Finding("warn", "seccomp", found, "Use x86-64 or arm64 to shut them in whole.")
    if not _loads_filter():
        found = "bwrap loads no seccomp filter here: sandboxed commands can make Unix sockets"
        return Finding(
            "warn", "seccomp", found, "Use a kernel with CONFIG_SECCOMP_FILTER, and a bubblewrap that works."
        )
    return Finding("ok", "seccomp", f"Unix sockets and dangerous system calls are refused by a filter for {known}")


def _loads_filter() -> bool:
    bwrap, true = shutil.which("bwrap"), shutil.which("true") or "/bin/true"
    if bwrap is None:
        return False
    reading, writing = os.pipe()
    try:
        os.write(writing, _ALLOW_ALL)
        os.close(writing)
        done = subprocess.run(  # noqa: S603 - a trial start, with flags of our own
            [bwrap, "--unshare-user", "--ro-bind", "/", "/", "--seccomp", str(reading), "--", true],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
            pass_fds=(reading,),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        os.close(reading)
    return done.returncode == 0


def _check_landlock() -> Finding:
    """It is not used yet: the filter refuses more. Its version says what could be."""
    # With no attributes and this flag the call tells the version, and makes nothing.
    version = int(ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
    if version <= 0:
        return Finding("ok", "landlock", "this kernel has none; the seccomp filter keeps commands from sockets")
    rule = "with" if version >= _NAMED_SOCKETS_ABI else "without"
    found = f"ABI {version}, {rule} a rule for named sockets; the seccomp filter keeps commands from them"
    return Finding("ok", "landlock", found)


def _check_memory(places: Places) -> Finding:
    if _has_delegated_memory(places):
        return Finding("ok", "memory", "[sandbox] memory_mb holds by a control group")
    found = "[sandbox] memory_mb holds by watching: no control group (cgroup v2) with memory is delegated"
    return Finding("ok", "memory", found)


def _has_delegated_memory(places: Places) -> bool:
    """As the daemon would find it: of its own group, and where none runs, of this one."""
    file = read_daemon_file(places.daemon_file)
    lines = _read(f"/proc/{file.pid}/cgroup" if file is not None else "/proc/self/cgroup") or _read("/proc/self/cgroup")
    own = next((line[3:] for line in lines.splitlines() if line.startswith("0::")), None)
    base = next((line.split()[1] for line in _read("/proc/mounts").splitlines() if " cgroup2 " in line), None)
    if own is None or base is None:
        return False
    folder = Path(base + own)
    return "memory" in _read(str(folder / "cgroup.subtree_control")).split() and os.access(folder, os.W_OK)


def _check_processes() -> Finding:
    if os.getuid() == 0:
        found = "the kernel does not bound those of root: [sandbox] processes holds by counting"
        return Finding("ok", "processes", found)
    numbers = platform.release().split(".")[:2]
    if tuple(int(each) if each.isdigit() else 0 for each in numbers) < _COUNTS_BY_NAMESPACE:
        found = "this kernel counts all processes of the user for [sandbox] processes"
        return Finding("warn", "processes", found, "Use Linux 5.14 or newer, or leave [sandbox] processes at 0.")
    return Finding("ok", "processes", "[sandbox] processes and file_mb hold by limits of the kernel")


def _read(file: str) -> str:
    try:
        with open(file, encoding="ascii", errors="replace") as opened:
            return opened.read(65536).strip()
    except OSError:
        return ""
