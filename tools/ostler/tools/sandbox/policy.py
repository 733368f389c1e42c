"""Chooses where a command runs: outside the sandbox, in the read-only one, or in the workspace's."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.tools import commands
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.sandbox import Profile, clean_path, list_hook_folders
from ostler.tools.tool_config import SandboxSettings, Support

_MODULE_PATH: Final = "PSModulePath"
"""Where PowerShell would look for commands of its own names."""

MISSING: Final = "This daemon runs commands only in the sandbox, and there is none here: "


class SandboxMissing(Exception):
    """It is required, and does not work here."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """A profile, and the sandbox that it is for."""

    profile: Profile
    support: Support


def choose_confinement(
    settings: SandboxSettings,
    session: SessionView,
    *,
    only_reads: bool,
    only_edits: bool = False,
    command: str | None = None,
) -> Confinement | None:
    """How a command is to be run; null: outside. Blocks the first time. Raises SandboxMissing.

    `command`: its text, where it may let git write: only where it visibly runs git, and was allowed for more than
    reading and editing.
    """
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
        shown_files=_list_git_folders(session),
        git_writes=not (only_reads or only_edits) and command is not None and _runs_git(command),
        git_folder=session.git_folder,
        protected=() if only_reads else _list_protected(session),
        unix_sockets=settings.unix_sockets,
        limits=settings.limits,
    )
    return Confinement(profile, support)


def _list_git_folders(session: SessionView) -> tuple[str, ...]:
    """Where the sandbox has other folders in the place of those around it, as in /tmp, git would find no repository."""
    folder = session.git_folder
    return (folder,) if folder is not None and os.path.isdir(folder) else ()


def _runs_git(command: str) -> bool:
    return "git" in command and "git" in commands.list_programs(commands.parse_command(command))


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
