"""Names of worktrees, their folders and their branches."""

import re
import secrets
from typing import Final

from ostler.protocol.patterns import compile_later

MAX_CHARS: Final = 64
_SEGMENT: Final = compile_later(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_BRANCH_PREFIX: Final = "worktree-"


class BadName(ValueError):
    """It cannot be the name of a worktree; the message says why."""


def check_name(name: str) -> str:
    """The name, where git and the file system take it. Raises BadName."""
    if not name or len(name) > MAX_CHARS:
        raise BadName(f"The name of a worktree has 1 to {MAX_CHARS} characters; this one has {len(name)}.")
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            raise BadName(
                f"{name!r} is no name for a worktree: between slashes it may have letters, digits, `.`, `_` and `-`, "
                "and begin with a letter, a digit or `_`."
            )
        if ".." in segment or segment.endswith((".", ".lock")):
            raise BadName(f"{name!r} is no name for a worktree: git takes no branch with `..`, or `.` or `.lock` last.")
    return name


def make_random_name() -> str:
    return f"wt-{secrets.token_hex(4)}"


def build_folder_name(name: str) -> str:
    """One folder for each name: a slash becomes `+`, which no name has, so that none lies inside another."""
    return name.replace("/", "+")


def build_branch_name(name: str) -> str:
    return _BRANCH_PREFIX + build_folder_name(name)
