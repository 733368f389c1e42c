"""The shell that a person logs in with, where it is not bash: which it is, its start files, and how it is asked.

Its language may be anything, so it is told only to become a bash, which then lists the variables that it was given.
"""

import os
import pwd
from collections.abc import Iterator, Mapping
from typing import Final

_READ_BY_BASH: Final = frozenset({"", "bash", "rbash", "sh", "dash", "ash", "nologin", "false", "true", "sync"})
"""Bash reads the same files as these, or they are nobody's choice: cron sets `sh`, services have `nologin`."""
_ZSH_FILES: Final = (".zshenv", ".zprofile", ".zshrc", ".zlogin")
_OTHER_FILES: Final = (".profile", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login")

LOGIN_OPTIONS: Final = (("-l", "-i", "-c"), ("-l", "-c"), ("-c",))
"""Most people set their variables for interactive shells only; some of those hang, and tcsh has no `-l` beside `-c`."""
# Quotes of this kind mean the same to all of them. Privileged, so that bash reads neither files nor functions.
_WORDS: Final = (
    "exec {bash} --noprofile --norc -p -c "
    """'{{ {env} -0; printf "%s\\0\\0%s\\0\\0%s\\0" {mark} {mark} {mark}; }} >&{descriptor} 2>/dev/null'"""
)


def find_login_shell(environment: Mapping[str, str]) -> str | None:
    """The path of the person's own shell; None where bash stands for it."""
    path = environment.get("SHELL", "")
    if not os.path.isabs(path):
        path = _find_registered_shell()
    return None if os.path.basename(path) in _READ_BY_BASH else path


def _find_registered_shell() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # as in a container that runs with any number
        return ""


def build_question(bash: str, env: str, mark: str, descriptor: int) -> str:
    """The words for its `-c`: the variables on a descriptor, then three marks, between which bash has its functions."""
    return _WORDS.format(bash=bash, env=env, mark=mark, descriptor=descriptor)


def iter_start_files(shell: str, home: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The files, and folders of files, that the shell reads: where one has changed it is asked again."""
    name = os.path.basename(shell)
    yield shell
    if name == "zsh":
        for folder in ("/etc", "/etc/zsh"):
            yield from (os.path.join(folder, file.removeprefix(".")) for file in _ZSH_FILES)
        yield from (os.path.join(home, file) for file in _ZSH_FILES)
        if own_folder := environment.get("ZDOTDIR"):
            yield from (os.path.join(own_folder, file) for file in _ZSH_FILES)
    elif name == "fish":
        for folder in ("/etc", environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")):
            yield from (os.path.join(folder, "fish", file) for file in ("config.fish", "conf.d", "fish_variables"))
    else:
        yield from (os.path.join(home, file) for file in _OTHER_FILES)
