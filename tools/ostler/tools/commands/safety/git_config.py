"""Keeps git from running programs that a repository's configuration names: overrides its keys, or reports them."""

import os
import re
import stat
from functools import cache
from typing import Final

from ostler.tools.commands.safety.program_table import load_toml

_OVERRIDES: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "",
    "core.sshCommand": "false",
    "core.alternateRefsCommand": "false",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "grep.fallbackToNoIndex": "false",
    "credential.helper": "",
}
GIT_GUARD_ENVIRONMENT: Final[dict[str, str]] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "",
    "GIT_CONFIG_COUNT": str(len(_OVERRIDES)),
    **{f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(_OVERRIDES)},
    **{f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(_OVERRIDES.values())},
}
"""With these git runs nothing that the repository names.

`GIT_EXTERNAL_DIFF` and `diff.external` are not among them: set to nothing they make git fail at the first difference. A
repository that sets the key needs an ask, and the variable is not passed on.
"""
UNSET_FOR_READ_ONLY: Final = (
    "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_PARAMETERS", "GIT_EXEC_PATH", "GIT_TRACE", "GIT_SSH",
    "GIT_SSH_COMMAND", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "SHELLOPTS",
    "BASHOPTS", "JQ_COLORS", "DIFF_OPTIONS", "PS4",
    "LESS", "LESSCLOSE", "LESSKEY", "LESSKEYIN", "MORE", "TAR_OPTIONS", "TAPE", "GZIP", "XZ_OPT", "XZ_DEFAULTS",
    "UNZIP", "UNZIPOPT", "ZIPINFO", "ZIPINFOOPT", "PYTHONPATH", "PYTHONHOME", "AWKPATH", "AWKLIBPATH",
)  # fmt: skip
"""Variables with which a program of the table would do more than the table says."""

_MAX_LEVELS: Final = 64
_MAX_BYTES: Final = 256 * 1024
_SECTION: Final = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*')
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?$")


class _Unreadable(Exception):
    """A file that git would read and that is not understood here."""


def find_git_config_problem(folder: str) -> str | None:
    """Which key of the repository around a folder cannot be overridden; None: there is none, or no repository."""
    try:
        found = _find_repository(folder)
        if found is None:
            return None
        place, tree = found
        if tree is not None and os.path.lexists(os.path.join(tree, ".gitmodules")):
            return "the repository has submodules, in which git would run with their own configuration"
        return _find_problem(place)
    except _Unreadable as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"the repository's configuration cannot be read: {error}"


def _find_problem(place: str) -> str | None:
    common = _find_common_dir(place)
    for path in (os.path.join(common, "config"), os.path.join(place, "config.worktree")):
        for key in _parse_keys(_read_small_file(path) or "", path):
            if not _is_harmless(key):
                return f"the key {key} in {path} cannot be switched off"
    return None


def _find_repository(folder: str) -> tuple[str, str | None] | None:
    """The folder with the repository's data, and its work tree."""
    here = os.path.abspath(folder)
    for _ in range(_MAX_LEVELS):
        inner = os.path.join(here, ".git")
        if os.path.isdir(inner):
            return inner, here
        if os.path.lexists(inner):
            return _read_gitdir_file(inner, here), here
        if all(os.path.lexists(os.path.join(here, name)) for name in ("HEAD", "objects", "refs")):
            return here, None
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    raise _Unreadable("the folder lies too deep to look for its repository")


def _read_gitdir_file(path: str, here: str) -> str:
    text = _read_small_file(path) or ""
    if not text.startswith("gitdir: "):
        raise _Unreadable(f"{path} does not say where the repository is")
    return os.path.join(here, text.removeprefix("gitdir: ").strip())


def _find_common_dir(place: str) -> str:
    text = _read_small_file(os.path.join(place, "commondir"))
    return place if text is None else os.path.join(place, text.strip())


def _read_small_file(path: str) -> str | None:
    """A small regular file; None where there is none."""
    try:
        # Non-blocking: it may be a FIFO that nobody writes to.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise _Unreadable(f"{path} is no regular file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise _Unreadable(f"{path} is too large")
    return content.decode("utf-8")


def _parse_keys(text: str, path: str) -> list[str]:
    """Every key of a configuration file, in lower case but for the subsection. Raises _Unreadable."""
    keys: list[str] = []
    section = ""
    continued = False
    for line in text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        ends_open = _ends_open(line)
        if continued:
            continued = ends_open
            continue
        rest = line.strip()
        if found := _SECTION.match(rest):
            section = found[1].lower() + (f".{found[2]}" if found[2] is not None else "")
            rest = rest[found.end() :]
        if not rest or rest[0] in "#;":
            continue
        key = _KEY.fullmatch(rest)
        if key is None or not section:
            raise _Unreadable(f"{path} holds a line that is not understood: {rest[:60]!r}")
        keys.append(f"{section}.{key[1].lower()}")
        continued = ends_open
    return keys


def _ends_open(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


@cache
def _load_harmless_keys() -> re.Pattern[str]:
    keys: list[str] = load_toml("git.toml")["harmless"]["keys"]
    return re.compile("|".join(re.escape(key).replace(r"\*", ".+") for key in keys), re.IGNORECASE | re.DOTALL)


def _is_harmless(key: str) -> bool:
    return _load_harmless_keys().fullmatch(key) is not None
