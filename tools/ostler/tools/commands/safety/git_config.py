"""Keeps git from running programs that a repository's configuration names: overrides its keys, or reports them."""

import os
import re
from functools import cache
from typing import Final

from ostler.tools.commands.safety.git_index import may_hold_submodules
from ostler.tools.commands.safety.git_repository import GitFailure, GitRepository, find_git_repository
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
    "GIT_SSH_COMMAND", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_CONFIG", "GIT_NAMESPACE",
    "GIT_ATTR_SOURCE", "GIT_PROXY_COMMAND", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF",
    "GIT_REDIRECT_STDOUT", "GIT_REDIRECT_STDERR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "SHELLOPTS", "BASHOPTS", "JQ_COLORS", "DIFF_OPTIONS", "PS4",
    "LESS", "LESSCLOSE", "LESSKEY", "LESSKEYIN", "MORE", "TAR_OPTIONS", "TAPE", "GZIP", "XZ_OPT", "XZ_DEFAULTS",
    "UNZIP", "UNZIPOPT", "ZIPINFO", "ZIPINFOOPT", "PYTHONPATH", "PYTHONHOME", "AWKPATH", "AWKLIBPATH",
    "MANOPT", "MANPATH", "MANROFFOPT", "MANROFFSEQ", "GROFF_TMAC_PATH", "GROFF_FONT_PATH", "GROFF_COMMAND_PREFIX",
    "GROFF_TYPESETTER", "GROFF_BIN_PATH", "BC_ENV_ARGS", "SHELLCHECK_OPTS", "DEBUGINFOD_URLS",
)  # fmt: skip
"""Variables with which a program of the table would do more than the table says."""

_MAX_BYTES: Final = 256 * 1024
_HASH_SIZES: Final = {"sha1": 20, "sha256": 32}


def find_git_config_problem(folder: str) -> str | None:
    """Which key of the repository around a folder cannot be overridden; None: there is none, or no repository.

    Blocks: git itself is asked, and answers within some milliseconds; the answer is kept while nothing changes.
    """
    try:
        repository = find_git_repository(folder, GIT_GUARD_ENVIRONMENT)
        return None if repository is None else _find_problem(repository)
    except GitFailure as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"the repository cannot be looked at: {error}"


def _find_problem(repository: GitRepository) -> str | None:
    # Where that file is gone git reads it from the index or HEAD, and its `ignore = none` is stronger than the guard.
    if os.path.lexists(os.path.join(repository.work_tree, ".gitmodules")) or may_hold_submodules(
        repository.git_dir, _find_hash_size(repository)
    ):
        return "the repository has submodules, in which git would run with their own configuration"
    for path in (os.path.join(repository.common_dir, "config"), os.path.join(repository.git_dir, "config.worktree")):
        if os.path.lexists(path) and os.stat(path).st_size > _MAX_BYTES:
            return f"{path} is too large"
    for key in repository.list_own_keys():
        if not _is_harmless(key.key):
            return f"the key {key.key} in {key.file} cannot be switched off"
    return None


def _find_hash_size(repository: GitRepository) -> int:
    formats = [key.value for key in repository.keys if key.key == "extensions.objectformat"]
    return _HASH_SIZES.get(formats[-1] if formats else "", 20)


def find_hooks_folder(folder: str) -> str | None:
    """Where git looks for the hooks of the repository around a folder, if that is configured. Blocks, as above."""
    try:
        repository = find_git_repository(folder, GIT_GUARD_ENVIRONMENT)
    except (GitFailure, OSError, ValueError):
        return None
    if repository is None:
        return None
    # The guard's own, which switches them off, is no answer.
    given = [key.value for key in repository.keys if key.key == "core.hookspath" and key.scope != "command"]
    return os.path.normpath(os.path.join(repository.work_tree, os.path.expanduser(given[-1]))) if given else None


@cache
def _load_harmless_keys() -> re.Pattern[str]:
    keys: list[str] = load_toml("git.toml")["harmless"]["keys"]
    return re.compile("|".join(re.escape(key).replace(r"\*", ".+") for key in keys), re.IGNORECASE | re.DOTALL)


def _is_harmless(key: str) -> bool:
    return _load_harmless_keys().fullmatch(key) is not None
