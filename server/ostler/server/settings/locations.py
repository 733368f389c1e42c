"""Which files hold settings, and whether one of them changed."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ostler.protocol.places import POLICY_FILE
from ostler.server.settings.types import Signature, Source

POLICY: Final = POLICY_FILE

_RACY_NS: Final = 100_000_000
"""Two writes that are closer than a tick of the file system's clock can look the same."""


@dataclass(frozen=True, slots=True)
class SettingsPlaces:
    """Where settings are that belong to no project."""

    home: str
    """The daemon's own folder."""
    user_home: str
    policy: str = POLICY


@dataclass(frozen=True, slots=True)
class Candidate:
    file: str
    source: Source
    root: str
    format: Literal["ours", "claude", "mcp"]
    """`mcp`: it names MCP servers, and nothing else."""


def list_candidates(folder: str, places: SettingsPlaces) -> tuple[Candidate, ...]:
    """Every file that may say something, those that count most first, whether they exist or not.

    The project is the session's folder and, where that lies in a git repository, the root of the repository: those two
    and nothing between or above, so that what counts does not depend on what happens to lie on the way up.
    """
    users = (
        Candidate(os.path.join(places.home, "settings.json"), "user", places.user_home, "ours"),
        Candidate(os.path.join(places.user_home, ".claude", "settings.json"), "user", places.user_home, "claude"),
    )
    taken = {os.path.realpath(each.file) for each in users}
    project: list[Candidate] = []
    for source, name in (("local", "settings.local.json"), ("project", "settings.json")):
        for root in list_project_folders(folder):
            project += [
                _build_candidate(root, ".ostler", name, source),
                _build_candidate(root, ".claude", name, source),
            ]
    project += [
        Candidate(os.path.join(root, ".mcp.json"), "project", root, "mcp") for root in list_project_folders(folder)
    ]
    # In the home folder itself, the user's own file is nobody's project.
    kept = [each for each in project if os.path.realpath(each.file) not in taken]
    return (Candidate(places.policy, "policy", "/", "ours"), *kept, *users)


def _build_candidate(root: str, folder: str, name: str, source: str) -> Candidate:
    kind: Source = "local" if source == "local" else "project"
    return Candidate(os.path.join(root, folder, name), kind, root, "ours" if folder == ".ostler" else "claude")


def list_project_folders(folder: str) -> tuple[str, ...]:
    """The session's folder, and the root of the repository around it where that is another."""
    root = find_repository(folder)
    return (folder,) if root is None or os.path.realpath(folder) == root else (folder, root)


def find_repository(folder: str) -> str | None:
    """The nearest folder from here upwards that has a `.git`, by its real path."""
    here = os.path.realpath(folder)
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def compute_signature(folder: str, places: SettingsPlaces) -> Signature:
    """What tells whether a file changed: a few calls to the file system, cheap enough to make before every turn."""
    return tuple((each.file, _stat_file(each.file)) for each in list_candidates(folder, places))


def compute_file_signature(files: Iterable[str]) -> Signature:
    """The same of other files that settings depend on."""
    return tuple((file, _stat_file(file)) for file in files)


def mask_recent_changes(taken: Signature, now_ns: int | None = None) -> Signature:
    """The signature, but files that changed a moment ago count as unknown, so that they are read once more."""
    now = time.time_ns() if now_ns is None else now_ns
    return tuple((file, (-1,) if facts and now - facts[-1] < _RACY_NS else facts) for file, facts in taken)


def _stat_file(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        # What cannot be seen may become visible: that, too, is a change then.
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns
