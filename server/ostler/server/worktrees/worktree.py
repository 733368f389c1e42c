"""A worktree as it is stored with the session that works in it, and what has changed in one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree that was made for one session, and what was true when it was made."""

    path: str
    """Its real path."""
    branch: str | None
    """The branch that was made for it; null where a hook made the worktree."""
    main: str
    """The main work tree of its repository."""
    common_dir: str
    base_commit: str
    base_branch: str | None
    owner: str
    """The session that it is for."""
    config_problem: str | None = None
    """What git's configuration would run, and was accepted when the worktree was made."""
    isolates: bool = False
    """It was given to an agent, which cannot leave it."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Worktree":
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """What would be lost with a worktree."""

    files: tuple[str, ...] = ()
    """Uncommitted and untracked ones, each with what git says of it."""
    commits: tuple[str, ...] = ()
    """Those that neither the commit where it began nor the branch that was checked out there have; newest first."""

    def __bool__(self) -> bool:
        return bool(self.files or self.commits)


@dataclass(frozen=True, slots=True)
class WorktreeOutcome:
    """What became of a worktree at its end."""

    path: str
    branch: str | None
    kept: bool
    why: str
    """One sentence for people and the model."""
    changes: WorktreeChanges = WorktreeChanges()
