"""Chooses where a command runs: outside the sandbox, in the read-only one, or in the workspace's."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ostler.tools import commands
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.sandbox import Profile, Support, clean_path, list_hook_folders
from ostler.tools.sandbox.kernel.limits import NO_LIMITS, Limits

_MODULE_PATH: Final = "PSModulePath"
"""Where PowerShell would look for commands of its own names."""
SandboxMode = Literal["auto", "on", "required", "off"]

MISSING: Final = "This daemon runs commands only in the sandbox, and there is none here: "


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the person's configuration says about the sandbox, and what the machine can do."""

    mode: SandboxMode
    support: Callable[[], Support]
    """Found out once, by starting it; blocks the first time."""
    hidden: tuple[str, ...] = ()
    """The daemon's own folders."""
    hosts: tuple[str, ...] = ()
    proxy: str | None = None
    """The socket of the proxy that lets the allowed hosts through."""
    skips_ask_rules: bool = False
    """A command in the workspace's sandbox is not asked about because of an ask rule."""
    unix_sockets: Literal["deny", "allow"] = "deny"
    limits: Limits = NO_LIMITS
    model_may_disable: bool = False
    """The model may ask for a command to run outside of it."""

    def is_wanted(self, *, restricted: bool) -> bool:
        """Whether a command is to run in it, where it works; `restricted`: its text alone allowed it."""
        return self.mode in {"on", "required"} or (restricted and self.mode == "auto")

    @property
    def may_be_left(self) -> bool:
        """Where it is required, nothing runs outside of it, whoever says yes."""
        return self.model_may_disable and self.mode in {"auto", "on"}


class SandboxMissing(Exception):
    """It is required, and does not work here."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """A profile, and the sandbox that it is for."""

    profile: Profile
    support: Support


def choose_confinement(
    settings: SandboxSettings, session: SessionView, *, only_reads: bool, only_edits: bool = False
) -> Confinement | None:
    """How a command is to be run; null: outside. Blocks the first time. Raises SandboxMissing."""
    if not settings.is_wanted(restricted=only_reads or only_edits):
        return None
    support = settings.support()
    if not support.works:
        if settings.mode == "required":
            raise SandboxMissing(f"{MISSING}{support.reason}")
        return None
    profile = Profile(
        kind="read_only" if only_reads else "workspace",
        roots=session.roots,
        folder=session.shell_folder,
        hidden=settings.hidden,
        network=settings.hosts if settings.hosts and settings.proxy and not (only_reads or only_edits) else "none",
        proxy=settings.proxy if not (only_reads or only_edits) else None,
        protected=() if only_reads else _list_protected(session),
        unix_sockets=settings.unix_sockets,
        limits=settings.limits,
    )
    return Confinement(profile, support)


def _list_protected(session: SessionView) -> tuple[str, ...]:
    """Files of the roots that run though their names do not say so: scripts of trusted hooks, and the hooks of git."""
    scripts = [path for path in map(paths.resolve_path, session.trusted_files) if os.path.exists(path)]
    roots = [paths.resolve_path(root) for root in session.roots]
    hooks = list_hook_folders([root for root in roots if paths.find_repository_folder(root) is not None], roots)
    below = [path for path in scripts if any(path != root and paths.is_inside(path, root) for root in roots)]
    return tuple(dict.fromkeys((*below, *hooks)))


def restrict_to_reading(
    environment: Mapping[str, str], roots: Sequence[str], *, network: bool = False
) -> dict[str, str]:
    """For a command that passed because it only reads: programs from outside the roots, and git without its helpers."""
    kept = {name: value for name, value in environment.items() if name not in commands.UNSET_FOR_READ_ONLY}
    kept.pop(_MODULE_PATH, None)
    path = clean_path(environment.get("PATH", ""), roots)
    more = commands.NETWORK_READ_ENVIRONMENT if network else {}
    return {**kept, **commands.GIT_GUARD_ENVIRONMENT, **commands.READ_ONLY_ENVIRONMENT, **more, "PATH": path}
