"""The command line that puts a command into the sandbox."""

import os
import sys
from collections.abc import Sequence
from typing import Final, assert_never

from ostler.tools.fs import paths
from ostler.tools.sandbox import forwarder
from ostler.tools.sandbox.mounts import Way, mounts
from ostler.tools.sandbox.probe import FLAGS, Support
from ostler.tools.sandbox.profile import Profile

_PROXY_INSIDE: Final = "/run/ostler-proxy.sock"
_PROXY_PORT: Final = 3128
_PROXY_NAMES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


# The first process in there: with its end the kernel ends all others, and bwrap ends after them. bwrap's own first one
# would wait for the others and end after bwrap, as if the command had left it behind. This one says nothing itself.
_FIRST: Final = ("/bin/sh", "-c", 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?', "sh")


class NoSandbox(Exception):
    """It does not work here; the message says why."""


def wrap(arguments: list[str], profile: Profile, support: Support, *, stays: bool = False) -> list[str]:
    """The command in the sandbox, to be started with the variables that `confined` leaves.

    One that stays until all that it runs is over, and ends as that did, is itself the first process in there.

    Looks at the file system, and so blocks. A workspace profile is to be held meanwhile: `hold`. Raises NoSandbox,
    NotProtectable and OSError.
    """
    if not support.works or support.bwrap is None:
        raise NoSandbox(support.reason)
    network, command = _network(profile, arguments, () if stays else _FIRST)
    place = ["--as-pid-1", "--chdir", paths.real(profile.folder)]
    return [support.bwrap, *FLAGS, *_mounted(profile), *network, *place, "--", *command]


def _mounted(profile: Profile) -> list[str]:
    plan = {"/": Way.READ_ONLY, **dict(mounts(profile).in_order())}
    flags = [*_flags("/", plan["/"]), "--proc", "/proc", "--dev", "/dev"]
    for path, way in plan.items():
        if path != "/" and not (way is Way.READ_ONLY and is_read_only(path, plan)):
            flags += _flags(path, way)
    if profile.network != "none" and profile.proxy is not None:
        flags += ["--ro-bind", profile.proxy, _PROXY_INSIDE]
    # Root without capabilities still owns the kernel's settings in /proc/sys, core_pattern among them, which names a
    # program to be run outside.
    flags += ["--remount-ro", "/proc"]
    return flags if profile.kind == "workspace" else [*flags, "--remount-ro", "/dev"]


def is_read_only(path: str, plan: dict[str, Way]) -> bool:
    """Whether it is so already, and needs no mount of its own."""
    above = (way for other, way in plan.items() if other != path and paths.inside(path, other))
    return all(way is Way.READ_ONLY for way in above)


def _flags(path: str, way: Way) -> list[str]:
    match way:
        case Way.EMPTY:
            # Closed by its mode alone: to remount it read-only takes 0.3 ms each. Whoever opens it writes to memory of
            # the sandbox's own, which goes away with it.
            return ["--perms", "0555", "--tmpfs", path]
        case Way.SCRATCH:
            return ["--perms", "1777", "--tmpfs", path]
        case Way.NOTHING:
            return ["--ro-bind", "/dev/null", path]
        case Way.READ_ONLY:
            return ["--ro-bind", path, path]
        case Way.WRITABLE:
            return ["--bind", path, path]
        case _:
            assert_never(way)


def _network(profile: Profile, arguments: list[str], first: Sequence[str]) -> tuple[list[str], list[str]]:
    """The variables that lead to the proxy, and the command behind what forwards to it, which then is the first."""
    if profile.network == "none" or profile.proxy is None:
        return [], [*first, *arguments]
    url = f"http://127.0.0.1:{_PROXY_PORT}"
    variables = [part for name in _PROXY_NAMES for part in ("--setenv", name, url)]
    # The interpreter itself, and not the link to it in an environment that may lie where the sandbox has nothing.
    python = [os.path.realpath(sys.executable), "-I", "-S", "-c", forwarder.source()]
    return variables, [*python, _PROXY_INSIDE, str(_PROXY_PORT), *arguments]
