"""Builds the bwrap command line that runs a command in the sandbox."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, assert_never

from ostler.tools.fs import paths
from ostler.tools.sandbox.kernel import seccomp
from ostler.tools.sandbox.kernel.limits import build_limit_prefix
from ostler.tools.sandbox.mounts import MountKind, plan_mounts
from ostler.tools.sandbox.network import forwarder
from ostler.tools.sandbox.probe import FLAGS
from ostler.tools.sandbox.profile import Profile
from ostler.tools.tool_config import Support

_PROXY_INSIDE: Final = "/run/ostler-proxy.sock"
_PROXY_PORT: Final = 3128
_COVER_BYTES: Final = 64 * 1024
_PROXY_NAMES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


# The sandbox's init process: with its end the kernel ends all others, and bwrap ends after them. bwrap's own init would
# wait for the others and end after bwrap, as if the command had left it running. This one prints nothing itself.
_INIT: Final = ("/bin/sh", "-c", 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?', "sh")


class NoSandbox(Exception):
    """It does not work here; the message says why."""


def wrap(
    arguments: list[str], profile: Profile, support: Support, *, filter_descriptor: int | None, stays: bool = False
) -> list[str]:
    """The command line in the sandbox, to be started with the variables that `confine_environment` leaves.

    `filter_descriptor`: by which number bwrap is given the filter that `find_filter` or `open_filter` has.

    `stays`: the command waits until all that it runs has ended, and exits as that did, so it can be the init process.

    Looks at the file system, and so blocks. The placeholders of a workspace profile must be held meanwhile:
    `hold_placeholders`. Raises NoSandbox, NotProtectable and OSError.
    """
    if not support.works or support.bwrap is None:
        raise NoSandbox(support.reason)
    network, command = _build_network(
        profile, support, [*build_limit_prefix(profile.limits), *arguments], () if stays else _INIT
    )
    place = ["--as-pid-1", "--chdir", paths.resolve_path(profile.folder)]
    filtered = ["--seccomp", str(filter_descriptor)] if filter_descriptor is not None and support.filters else []
    mounts = _build_mount_flags(profile, support)
    return [support.bwrap, *FLAGS, *mounts, *network, *filtered, *place, "--", *command]


def find_filter(profile: Profile, support: Support) -> str | None:
    """The path at which a process that is being started opens the filter for bwrap; null where there is none."""
    return seccomp.find_filter_path(unix_sockets=profile.starts_with_sockets) if support.filters else None


def open_filter(profile: Profile, support: Support) -> AbstractContextManager[Sequence[int]]:
    """The same for one that inherits descriptors: one or none."""
    return seccomp.open_filter(unix_sockets=profile.starts_with_sockets) if support.filters else nullcontext(())


def _build_mount_flags(profile: Profile, support: Support) -> list[str]:
    # Where no socket can be made, those outside need no cover, each of which is a mount that may be gone by then.
    open_sockets = profile.unix_sockets == "allow" or not support.filters
    plan = {"/": MountKind.READ_ONLY, **dict(plan_mounts(profile, cover_sockets=open_sockets).iter_in_order())}
    memory = profile.limits.memory_mb * 1024 * 1024
    flags = [*_format_mount_flags("/", plan["/"], memory), "--proc", "/proc", "--dev", "/dev"]
    if memory:
        flags += _format_mount_flags("/dev/shm", MountKind.SCRATCH, memory)  # noqa: S108 - of the sandbox's own
    for path, kind in plan.items():
        if path != "/" and not (kind is MountKind.READ_ONLY and is_read_only(path, plan)):
            flags += _format_mount_flags(path, kind, memory)
    if profile.uses_forwarder and profile.proxy is not None:
        flags += ["--ro-bind", profile.proxy, _PROXY_INSIDE]
    # Root without capabilities still owns the kernel's settings in /proc/sys, core_pattern among them, which names a
    # program to be run outside.
    flags += ["--remount-ro", "/proc"]
    return flags if profile.kind == "workspace" else [*flags, "--remount-ro", "/dev"]


def is_read_only(path: str, plan: dict[str, MountKind]) -> bool:
    """Whether a path is read-only already, and needs no mount of its own."""
    above = (kind for other, kind in plan.items() if other != path and paths.is_inside(path, other))
    return all(kind is MountKind.READ_ONLY for kind in above)


def _format_mount_flags(path: str, kind: MountKind, memory: int) -> list[str]:
    """`memory`: the most bytes that a folder in memory may hold; 0 where there is no limit."""
    match kind:
        case MountKind.EMPTY:
            # Closed by its mode alone: to remount it read-only takes 0.3 ms each. Whoever opens it writes to memory of
            # the sandbox's own, which goes away with it.
            return ["--perms", "0555", *(("--size", str(_COVER_BYTES)) if memory else ()), "--tmpfs", path]
        case MountKind.SCRATCH:
            return ["--perms", "1777", *(("--size", str(memory)) if memory else ()), "--tmpfs", path]
        case MountKind.NOTHING:
            return ["--ro-bind", "/dev/null", path]
        case MountKind.READ_ONLY:
            return ["--ro-bind", path, path]
        case MountKind.WRITABLE:
            return ["--bind", path, path]
        case _:
            assert_never(kind)


def _build_network(
    profile: Profile, support: Support, arguments: list[str], first: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The flags that set the proxy's variables, and the command; with a proxy the forwarder is the init process."""
    if not profile.uses_forwarder:
        return [], [*first, *arguments]
    url = f"http://127.0.0.1:{_PROXY_PORT}"
    variables = [part for name in _PROXY_NAMES for part in ("--setenv", name, url)]
    # The interpreter itself, and not the link to it in an environment that may lie where the sandbox has nothing.
    python = [os.path.realpath(sys.executable), "-I", "-S", "-c", forwarder.read_source()]
    denied = profile.unix_sockets == "deny" and support.filters
    program = (seccomp.build_filter(unix_sockets=False) or b"") if denied else b""
    return variables, [*python, _PROXY_INSIDE, str(_PROXY_PORT), program.hex(), *arguments]
