"""Lists the files of a git repository, those of its history included, for rules about what git shows of them."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from ostler.tools import commands
from ostler.tools.fs.paths import is_inside
from ostler.tools.permissions.path_pattern import PathPattern

_SECONDS: Final = 3.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAGIC: Final = frozenset("*?[\\")
_HISTORY: Final = (
    "log", "--all", "--reflog", "--full-history", "-m", "--root", "--no-renames", "--format=", "--name-only", "-z",
)  # fmt: skip


class TooMuchToList(Exception):
    """Git did not list its files in time, or not at all."""


def list_repository_files(folder: str, patterns: Sequence[PathPattern]) -> list[str]:
    """The absolute paths of files, tracked now or at any time, that may match; the patterns decide.

    Raises TooMuchToList. Blocks: runs git.
    """
    found = _run_git(folder, "rev-parse", "--show-toplevel")
    if found is None:
        return []  # no repository, so that git shows nothing
    top = os.fsdecode(found.rstrip(b"\n"))
    if not top:
        return []
    specs = sorted({spec for pattern in patterns for spec in _build_specs(pattern, top)})
    if not specs:
        return []
    if ":(top)" in specs:
        specs = [":(top)"]
    listed = [
        _run_git(folder, "ls-files", "-z", "--full-name", "--", *specs),
        _run_git(folder, *_HISTORY, "--", *specs),
    ]
    names = {os.fsdecode(name.strip(b"\n")) for each in listed for name in (each or b"").split(b"\0")}
    return [os.path.join(top, name) for name in sorted(names) if name]


def _build_specs(pattern: PathPattern, top: str) -> Iterable[str]:
    """Pathspecs for all that may match, and perhaps for more."""
    fold = ",icase" if pattern.folds else ""
    for base in pattern.bases:
        if base != top and is_inside(base, top):
            yield f":(top,literal{fold}){os.path.relpath(base, top)}"
        elif is_inside(top, base or "/"):
            if base != top or not pattern.needle or set(pattern.needle) & (_MAGIC | {"/"}):
                yield ":(top)"
            else:
                yield f":(top,glob{fold})**/*{pattern.needle}*"
                yield f":(top,glob{fold})**/*{pattern.needle}*/**"


def _run_git(folder: str, *words: str) -> bytes | None:
    """What git prints; None where it fails, as outside of a repository."""
    environment = {name: value for name, value in os.environ.items() if name not in commands.UNSET_FOR_READ_ONLY}
    git = shutil.which("git", path=":".join(place for place in os.get_exec_path() if os.path.isabs(place)))
    if git is None:
        return None
    try:
        ran = subprocess.run(  # noqa: S603 - no shell; the words are our own and pathspecs after `--`
            [git, *words],
            cwd=folder,
            env=environment | commands.GIT_GUARD_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise TooMuchToList(str(error)) from None
    if len(ran.stdout) > _MAX_BYTES:
        raise TooMuchToList("There are too many files.")
    return ran.stdout if ran.returncode == 0 else None
