"""Environment facts of a session that can change while it lives: folders, git state, mode, date."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import orjson

from ostler.protocol.session import Mode
from ostler.tools.fs.regular_file import NotRegular, read_regular_file

_THREADS: Final = anyio.CapacityLimiter(8)
_MAX_GIT_FILE: Final = 4096


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """The environment as the model was last told it; stored, so that the next turn knows what has changed."""

    folder: str
    directories: tuple[str, ...]
    """Further folders that the session may work in."""
    mode: Mode
    date: str
    git_root: str | None
    git_branch: str | None
    """The branch; a commit in short where no branch is checked out."""
    plan_file: str | None = None
    """In plan mode, where the plan is written."""

    @property
    def branch_words(self) -> str:
        return f"on {to_printable(self.git_branch)}" if self.git_branch else "on no branch"

    def to_json(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def from_json(cls, encoded: bytes) -> "EnvironmentFacts":
        stored = orjson.loads(encoded)
        return cls(**stored | {"directories": tuple(stored["directories"])})


@dataclass(frozen=True, slots=True)
class GitState:
    """The git repository and branch of a folder."""

    root: str | None
    branch: str | None


async def read_git_state(folder: str) -> GitState:
    root, branch = await anyio.to_thread.run_sync(_read_git, folder, limiter=_THREADS, abandon_on_cancel=True)
    return GitState(root, branch)


def update_facts(
    told: EnvironmentFacts,
    folder: str,
    directories: Sequence[str],
    mode: Mode,
    git: GitState | None,
    plan_file: str | None = None,
) -> EnvironmentFacts:
    """The facts without reading any file: where no git state is given, it is as it was last told."""
    git = git or GitState(told.git_root, told.git_branch)
    return EnvironmentFacts(folder, tuple(directories), mode, _today(), git.root, git.branch, plan_file)


async def read_facts(
    folder: str,
    directories: Sequence[str],
    mode: Mode,
    *,
    today: date | None = None,
    plan_file: str | None = None,
) -> EnvironmentFacts:
    """Reads the facts as they are now."""
    git = await read_git_state(folder)
    return EnvironmentFacts(
        folder, tuple(directories), mode, today.isoformat() if today else _today(), git.root, git.branch, plan_file
    )


def _today() -> str:
    # The person's own calendar, not that of Greenwich.
    return date.today().isoformat()


def find_git_root(folder: str) -> str | None:
    """The top of the repository that the folder is in."""
    path = Path(folder)
    for at in (path, *path.parents):
        if (at / ".git").exists():
            return str(at)
    return None


def to_printable(text: str | None) -> str:
    """One line that cannot end a tag: names of files and branches come from anywhere."""
    return "".join(_escape_character(char) for char in (text or "")[:4096])


def _escape_character(char: str) -> str:
    return f"\\x{ord(char):02x}" if not char.isprintable() or char in '<"' else char


def _read_git(folder: str) -> tuple[str | None, str | None]:
    # Read from its files: starting git in a folder that nobody has trusted yet would run what its config names.
    try:
        root = find_git_root(folder)
        return root, _read_branch(Path(root) / ".git") if root else None
    except (OSError, ValueError):
        return None, None


def _read_branch(git: Path) -> str | None:
    if git.is_file():  # a worktree or a submodule
        pointed = _read_small_file(git).removeprefix("gitdir:").strip()
        git = git.parent / pointed
    head = _read_small_file(git / "HEAD").strip()
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return f"commit {head[:12]}" if head else None


def _read_small_file(path: Path) -> str:
    try:
        return read_regular_file(str(path), _MAX_GIT_FILE).decode("utf-8", "replace")
    except NotRegular:
        return ""
