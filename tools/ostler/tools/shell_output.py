"""A command's output as the model reads it, and what its exit code means."""

import re
import shlex
import signal
from typing import Final

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for the terminal
    r"|\x1b[ -/]*[0-~]"  # the rest
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

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
_OPERATORS: Final = "();<>|&\n"
_SLEEP: Final = re.compile(r"\s*sleep\s+(\d+(?:\.\d*)?|\.\d+)([smhd]?)\s*(?:$|;|&&|\|\||\||\n)")


def for_the_model(output: str) -> str:
    """Without colours, and with only the last state of each progress bar."""
    text = _ESCAPES.sub("", output)
    if "\r" in text:
        text = "\n".join(map(_last_state, text.replace("\r\n", "\n").split("\n")))
    return _CONTROLS.sub("", text)


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def meaning(command: str, exit_code: int) -> str | None:
    """What exit code 1 says where it is no failure; null where it is one, or where that cannot be told."""
    return _HARMLESS.get(_deciding_program(command)) if exit_code == 1 else None


def _deciding_program(command: str) -> str:
    """The program whose exit code the shell gives on: the last one, where nothing before it could end the command."""
    lexer = shlex.shlex(command.strip().rstrip(";"), posix=True, punctuation_chars=_OPERATORS)
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


def long_sleep(command: str) -> bool:
    """Whether the first thing it does is to wait for two seconds or more."""
    match = _SLEEP.match(command)
    if match is None:
        return False
    factor = {"m": 60, "h": 3600, "d": 86400}.get(match[2], 1)
    return float(match[1]) * factor >= 2
