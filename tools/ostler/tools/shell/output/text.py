"""A command's output as the model reads it, and what its exit code means."""

import re
import shlex
import signal
from typing import Final

from ostler.tools.commands import Part, Reading

_HARMLESS: Final = {
    "grep": "no match",
    "egrep": "no match",
    "fgrep": "no match",
    "rg": "no match",
    "zgrep": "no match",
    "diff": "the files differ",
    "cmp": "the files differ",
    "test": "the condition is false",
    "[": "the condition is false",
    "find": "some folders could not be looked into",
}
_GOES: Final = re.compile(r"""\s*+cd[ \t]++(?:'[^']*+'|"[^"$`\\]*+"|[^\s;|&<>()'"$`\\]++)[ \t]*+&&""")
"""Into a folder first, as most commands of most models do."""
_DID_NOT_GO: Final = ": cd: "
_OPERATORS: Final = "();<>|&\n"
_MAX_LEXED: Final = 1200
"""Characters; they take up to 2.5 ms."""
# Of what is in these lists nothing is said when all goes well.
_SILENT: Final = frozenset({
    "mkdir", "rmdir", "rm", "mv", "cp", "ln", "touch", "chmod", "chown", "chgrp", "truncate", "install", "cd", "pushd",
    "export", "unset", "alias", "unalias", "set", "true", ":", "umask", "wait", "kill", "sync", "mkfifo", "tee",
})  # fmt: skip
_SILENT_GIT: Final = frozenset({"add", "rm", "mv", "config", "tag"})
_TALKS: Final = re.compile(r"-(?:[A-Za-z]*v[A-Za-z]*|-verbose|-changes)\Z")


_REAL_TIME: Final = range(35, 64)
"""Linux gives only the first and the last of them a name."""
_LAST_SIGNAL: Final = 64


def signal_name(number: int) -> str:
    if number in _REAL_TIME:
        return f"SIGRTMIN+{number - _REAL_TIME.start + 1}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_in(exit_code: int | None) -> int | None:
    """The signal that a shell's exit code speaks of, where it may speak of one."""
    if exit_code is None or not 128 < exit_code <= 128 + _LAST_SIGNAL:
        return None
    return exit_code - 128


def meaning(command: str, exit_code: int, output: str = "") -> str | None:
    """What exit code 1 says where it is no failure; null where it is one, or where that cannot be told."""
    went = _GOES.match(command)
    # It says so when it fails: else the exit code is that of what follows.
    if went is not None and _DID_NOT_GO not in output:
        command = command[went.end() :]
    return _HARMLESS.get(_deciding_program(command)) if exit_code == 1 else None


def _deciding_program(command: str) -> str:
    """The program whose exit code the shell gives on: the last one, where nothing before it could end the command."""
    command = command.strip().rstrip(";")
    # The end of a command says nothing without its beginning, which may open a quote: of a long one nothing is told.
    if len(command) > _MAX_LEXED:
        return ""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t"
    try:
        tokens = list(lexer)
    except ValueError:
        return ""
    words: list[str] = []
    for token in tokens:
        if token in {"|", "|&"} or set(token) <= set(";\n"):
            words = []
        elif token in {"&", "&&", "||", "<<", "<<<"} or set(token) & set("()"):
            return ""
        elif not re.match(r"\w+=", token):
            words.append(token)
    return words[0].rsplit("/", 1)[-1] if words else ""


def is_silent(reading: Reading) -> bool:
    """Whether every part of a command says nothing when all goes well."""
    return reading.problem is None and bool(reading.parts) and all(map(_says_nothing, reading.parts))


def _says_nothing(part: Part) -> bool:
    words = part.words
    if any(word is not None and _TALKS.match(word) for word in words):
        return False
    name = words[0] if words else None
    if name == "git":
        return len(words) > 2 and words[1] in _SILENT_GIT
    return name in _SILENT and (name != "tee" or part.redirections != ())
