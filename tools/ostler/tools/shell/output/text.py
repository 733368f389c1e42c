"""What a command's exit code and signal mean, and which commands print nothing when all goes well."""

import re
import shlex
import signal
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands import ParsedCommand, SimpleCommand

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
_CD_FIRST: Final = compile_later(r"""\s*+cd[ \t]++(?:'[^']*+'|"[^"$`\\]*+"|[^\s;|&<>()'"$`\\]++)[ \t]*+&&""")
"""A command that begins with `cd FOLDER &&`, as most commands of most models do."""
_CD_FAILED: Final = ": cd: "
_OPERATORS: Final = "();<>|&\n"
_MAX_LEXED: Final = 1200
"""Characters; they take up to 2.5 ms."""
# Commands that print nothing when all goes well.
_SILENT: Final = frozenset({
    "mkdir", "rmdir", "rm", "mv", "cp", "ln", "touch", "chmod", "chown", "chgrp", "truncate", "install", "cd", "pushd",
    "export", "unset", "alias", "unalias", "set", "true", ":", "umask", "wait", "kill", "sync", "mkfifo", "tee",
})  # fmt: skip
_SILENT_GIT: Final = frozenset({"add", "rm", "mv", "config", "tag"})
_VERBOSE: Final = compile_later(r"-(?:[A-Za-z]*v[A-Za-z]*|-verbose|-changes)\Z")


_REAL_TIME: Final = range(35, 64)
"""Linux gives only the first and the last of them a name."""
_LAST_SIGNAL: Final = 64


def format_signal(number: int) -> str:
    if number in _REAL_TIME:
        return f"SIGRTMIN+{number - _REAL_TIME.start + 1}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def parse_signal(exit_code: int | None) -> int | None:
    """The signal that a shell's exit code stands for; null where it stands for none."""
    if exit_code is None or not 128 < exit_code <= 128 + _LAST_SIGNAL:
        return None
    return exit_code - 128


def explain_exit_code(command: str, exit_code: int, output: str = "") -> str | None:
    """What exit code 1 means where it is no failure; null where it is one, or where that is not known."""
    went = _CD_FIRST.match(command)
    # A `cd` that fails prints so: else the exit code is that of what follows.
    if went is not None and _CD_FAILED not in output:
        command = command[went.end() :]
    return _HARMLESS.get(_find_deciding_program(command)) if exit_code == 1 else None


def _find_deciding_program(command: str) -> str:
    """The program whose exit code the shell returns: the last one, where nothing before it could end the command."""
    command = command.strip().rstrip(";")
    # The end of a command means nothing without its beginning, which may open a quote: a long one is not parsed.
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


def is_silent(reading: ParsedCommand) -> bool:
    """Whether every part of a command prints nothing when all goes well."""
    return reading.problem is None and bool(reading.parts) and all(map(_is_silent_part, reading.parts))


def _is_silent_part(part: SimpleCommand) -> bool:
    words = part.words
    if any(word is not None and _VERBOSE.match(word) for word in words):
        return False
    name = words[0] if words else None
    if name == "git":
        return len(words) > 2 and words[1] in _SILENT_GIT
    return name in _SILENT and (name != "tee" or part.redirections != ())
