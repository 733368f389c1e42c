"""Asks git which repository it finds from a folder, and what is configured there: nobody else knows for sure.

An answer is kept while nothing has changed that it depends on: what lies on the way up to the repository, and the files
that git read.
"""

import contextlib
import os
import stat
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.process.pipes import TooMuch, TooSlow, read_pipes

_TIME_LIMIT: Final = 2.0
_MAX_BYTES: Final = 1024 * 1024
_MAX_LEVELS: Final = 64
_MAX_FILES: Final = 64
"""Files that git read: with more of them an answer is not kept."""
_MAX_KEPT: Final = 256
_SETTLED_NS: Final = 2_000_000_000
"""A file that changed so recently may change again without another time or size: what was read then is not kept."""
_SYSTEM_FOLDERS: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
_OWN_VARIABLES: Final = (
    "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
)  # fmt: skip
"""Of the daemon's environment: which of the person's own files git reads."""
_NO_REPOSITORY: Final = "fatal: not a git repository (or any "
_PERSONS_SCOPES: Final = frozenset({"system", "global", "command"})
_WHERE: Final = ("rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
_WHAT: Final = ("config", "--list", "--show-scope", "--show-origin", "-z")


class GitFailure(Exception):
    """Git could not say, or not in time."""


@dataclass(frozen=True, slots=True)
class GitKey:
    """One line of the configuration that is in effect, in git's order: a later one overrides an earlier one."""

    key: str
    """In lower case, but for its middle part."""
    value: str
    scope: str
    file: str
    """The absolute path of the file that it stands in; empty where it stands in none."""


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository with a work tree, as git finds it."""

    work_tree: str
    git_dir: str
    common_dir: str
    keys: tuple[GitKey, ...]

    def list_own_keys(self) -> list[GitKey]:
        """What the repository itself brings: its own files and what they include, and whatever lies in it."""
        places = (self.work_tree, self.git_dir, self.common_dir)
        return [
            key
            for key in self.keys
            if key.scope not in _PERSONS_SCOPES or any(key.file.startswith(f"{place}/") for place in places)
        ]


def find_git_repository(folder: str, guard: Mapping[str, str]) -> GitRepository | None:
    """The repository around a folder; None where there is none. Blocks, for some milliseconds where it is not kept.

    `guard`: the variables that git runs with later, so that it finds the same now. Raises GitFailure.
    """
    here = os.path.realpath(folder)
    environment = build_git_environment(guard)
    way = _follow_way_up(here)
    if way is not None and (known := _kept.find(here, environment, way)) is not None:
        return known.repository
    began = time.time_ns()
    repository = _ask_git(here, environment)
    if way is not None:
        _kept.add(here, environment, way, repository, began)
    return repository


# What git is asked.


def _ask_git(here: str, environment: dict[str, str]) -> GitRepository | None:
    _refuse_pipes(here)
    git = find_git(here)
    if git is None:
        raise GitFailure("git was not found outside of the session's folders, so that nothing is known of it")
    where, what = _run_all(git, (_WHERE, _WHAT), here, environment)
    keys = _parse_keys(what.output, here) if what.status == 0 else ()
    if where.status != 0:
        words = where.complaint
        if words.startswith(_NO_REPOSITORY) and what.status == 0 and all(key.scope in _PERSONS_SCOPES for key in keys):
            return None
        raise GitFailure(f"git cannot use the repository: {_shorten(words)}")
    if what.status != 0:
        raise GitFailure(f"git cannot read its configuration: {_shorten(what.complaint)}")
    lines = _decode(where.output).removesuffix("\n").split("\n")
    if len(lines) != 3:
        raise GitFailure("git cannot say where the repository is")
    git_dir, common_dir, work_tree = (os.path.normpath(os.path.join(here, line)) for line in lines)
    return GitRepository(work_tree, git_dir, common_dir, keys)


def _refuse_pipes(here: str) -> None:
    """A FIFO in the place of a configuration would hold git up until its time is over, at every question."""
    for level in _list_levels(here):
        for name in (".git", ".git/config", ".git/HEAD", "config"):
            path = os.path.join(level, name)
            with contextlib.suppress(OSError, ValueError):
                kind = stat.S_IFMT(os.stat(path).st_mode)
                if kind not in {stat.S_IFREG, stat.S_IFDIR}:
                    raise GitFailure(f"{path} is no regular file")


def _parse_keys(output: bytes, here: str) -> tuple[GitKey, ...]:
    """Three fields for each: its scope, its origin, and the key with its value after a newline."""
    fields = _decode(output).split("\0")
    if fields.pop() or len(fields) % 3:
        raise GitFailure("git cannot say what is configured")
    found: list[GitKey] = []
    for scope, origin, line in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        key, _, value = line.partition("\n")
        kind, _, path = origin.partition(":")
        found.append(GitKey(key, value, scope, os.path.normpath(os.path.join(here, path)) if kind == "file" else ""))
    return tuple(found)


def _decode(output: bytes) -> str:
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError:
        raise GitFailure("the configuration of git is not in UTF-8") from None


def _shorten(words: str) -> str:
    return " ".join(words.split())[:200] or "it says nothing"


def build_git_environment(guard: Mapping[str, str]) -> dict[str, str]:
    """The environment of a git that the daemon starts itself: the person's own files count, nothing else of theirs."""
    own = {name: os.environ[name] for name in _OWN_VARIABLES if name in os.environ}
    return {**own, **guard, "LC_ALL": "C", "PATH": ":".join(_SYSTEM_FOLDERS)}


def find_git(here: str) -> str | None:
    """Where the system has it, else on the daemon's search path, but never in a repository around the folder."""
    inside = [level for level in _list_levels(here) if level == here or os.path.lexists(os.path.join(level, ".git"))]
    return next((path for path in _list_gits(os.environ.get("PATH", "")) if not _is_below(path, inside)), None)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(
        each.startswith(f"{folder.rstrip('/')}/") for each in (path, os.path.realpath(path)) for folder in folders
    )


@cache
def _list_gits(search_path: str) -> tuple[str, ...]:
    folders = dict.fromkeys((*_SYSTEM_FOLDERS, *filter(os.path.isabs, search_path.split(":"))))
    paths = (os.path.join(folder, "git") for folder in folders)
    return tuple(path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))


# How git is run.


@dataclass(slots=True)
class _Run:
    """One process, and what it has printed."""

    process: "subprocess.Popen[bytes]"
    output: bytes = b""
    complaint: str = ""
    status: int = -1


def _run_all(git: str, commands: Sequence[Sequence[str]], here: str, environment: dict[str, str]) -> list[_Run]:
    """Runs them side by side, in a limited time and with limited output."""
    with contextlib.ExitStack() as stack:
        runs: list[_Run] = []
        try:
            for command in commands:
                process = subprocess.Popen(  # noqa: S603 - found outside the repository; it runs nothing for these two
                    [git, *command],
                    cwd=here,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                stack.enter_context(exclude_from_reaping(process.pid))
                stack.enter_context(process)
                stack.callback(process.kill)
                runs.append(_Run(process))
        except OSError as error:
            raise GitFailure(f"git could not be started: {error.strerror}") from None
        _read_all(runs)
        for run in runs:
            run.status = run.process.wait()
    return runs


def _read_all(runs: Sequence[_Run]) -> None:
    pipes = [pipe for run in runs for pipe in (run.process.stdout, run.process.stderr)]
    try:
        printed = read_pipes(pipes, seconds=_TIME_LIMIT, max_bytes=_MAX_BYTES)
    except TooSlow:
        raise GitFailure(f"git did not say within {_TIME_LIMIT:g} s what is configured") from None
    except TooMuch:
        raise GitFailure("the configuration of git is too long") from None
    for run, output, complaint in zip(runs, printed[::2], printed[1::2], strict=True):
        run.output, run.complaint = output, complaint.decode("utf-8", "replace")


# What is kept.

_Stamp = tuple[int, ...] | None
"""What the file system says of a path; None where there is nothing."""


@dataclass(frozen=True, slots=True)
class _Known:
    repository: GitRepository | None
    environment: dict[str, str]
    way: tuple[_Stamp, ...]
    files: tuple[tuple[str, _Stamp], ...]


class _KeptAnswers:
    """The last answers, by folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def find(self, here: str, environment: dict[str, str], way: tuple[_Stamp, ...]) -> _Known | None:
        with self._lock:
            known = self._known.get(here)
        if known is None or known.way != way or known.environment != environment:
            return None
        return known if all(_stamp(path) == stamp for path, stamp in known.files) else None

    def add(
        self,
        here: str,
        environment: dict[str, str],
        way: tuple[_Stamp, ...],
        repository: GitRepository | None,
        began: int,
    ) -> None:
        """Keeps an answer, unless something that it depends on changed while git read it, or only just before."""
        # Where the way up ended at a `.git`, that has to be the repository: a broken one, which git passed by, could be
        # mended in a file that is not looked at.
        levels = list(_list_levels(here))[: len(way)]
        if (repository.work_tree if repository is not None else None) != (levels[-1] if way[-1] is not None else None):
            return
        paths = _list_read_files(repository)
        files = tuple((path, _stamp(path)) for path in paths)
        stamps = [*way, *(stamp for _, stamp in files)]
        if len(paths) > _MAX_FILES or _follow_way_up(here) != way or any(map(os.path.islink, paths)):
            return
        if any(stamp is not None and max(stamp[:2]) > began - _SETTLED_NS for stamp in stamps):
            return
        with self._lock:
            self._known[here] = _Known(repository, environment, way, files)
            self._known.move_to_end(here)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)


_kept: Final = _KeptAnswers()


def _list_read_files(repository: GitRepository | None) -> list[str]:
    """What decides that a folder is a repository, and every file of its configuration."""
    if repository is None:
        return []
    own = [
        os.path.join(repository.git_dir, name) for name in ("HEAD", "refs", "commondir", "gitdir", "config.worktree")
    ]
    common = [os.path.join(repository.common_dir, name) for name in ("config", "objects", "refs")]
    top = [os.path.join(repository.work_tree, name) for name in (".git", ".gitmodules")]
    named = [key.file for key in repository.keys if key.file]
    folders = (repository.work_tree, repository.git_dir, repository.common_dir)
    return list(dict.fromkeys((*folders, *own, *common, *top, *named)))


def _follow_way_up(here: str) -> tuple[_Stamp, ...] | None:
    """The first `.git` on the way up, and that none is below it; None where more than that decides."""
    found: list[_Stamp] = []
    for level in _list_levels(here):
        # A folder with HEAD, objects and refs is a repository by itself.
        if os.path.lexists(os.path.join(level, "HEAD")):
            return None
        stamp = _stamp(os.path.join(level, ".git"))
        found.append(stamp)
        if stamp is not None:
            break
    return tuple(found) if len(found) < _MAX_LEVELS else None


def _list_levels(here: str) -> Iterator[str]:
    for _ in range(_MAX_LEVELS):
        yield here
        above = os.path.dirname(here)
        if above == here:
            return
        here = above


def _stamp(path: str) -> _Stamp:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    kind = stat.S_IFMT(facts.st_mode)
    if kind == stat.S_IFDIR:
        # What comes and goes inside is looked at by name.
        return (0, 0, facts.st_dev, facts.st_ino, facts.st_mode, facts.st_uid)
    return (
        facts.st_ctime_ns,
        facts.st_mtime_ns,
        facts.st_dev,
        facts.st_ino,
        facts.st_mode,
        facts.st_uid,
        facts.st_size,
    )
