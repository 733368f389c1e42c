"""Parses simple PowerShell commands: literal words, joined by `;`, `|`, `&&`, `||` and newlines.

PowerShell's grammar is large, and changes with what is loaded. Whatever this does not surely understand is refused, and
a command that is refused here is neither read-only nor allowed by a rule.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ostler.protocol.patterns import compile_later

_MAX_CHARS: Final = 10_000
_MAX_GIVEN_CHARS: Final = 100_000
"""With the blanks around it."""
_BARE: Final = compile_later(r"[A-Za-z0-9_./\\:*?=+,^~%-][A-Za-z0-9_./\\:*?=+,^~%@-]*")
_SINGLE: Final = compile_later(r"'((?:[^'\n]|'')*)'")
_DOUBLE: Final = compile_later(r'"((?:[^"$`\n]|"")*)"')
_SEPARATOR: Final = compile_later(r"[ \t]*(\|\||&&|[|;\n])[ \t\n]*")
_BLANKS: Final = compile_later(r"[ \t]+")
_NAME: Final = compile_later(r"[A-Za-z][A-Za-z0-9_.\\-]*")
# Words that begin something else than a command.
_KEYWORDS: Final = frozenset({
    "begin", "break", "catch", "class", "continue", "data", "define", "do", "dynamicparam", "else", "elseif", "end",
    "enum", "exit", "filter", "finally", "for", "foreach", "from", "function", "if", "in", "param", "process", "return",
    "switch", "throw", "trap", "try", "until", "using", "var", "while", "workflow", "parallel", "sequence", "clean",
    "configuration", "hidden", "static", "interface", "namespace", "module", "type", "assembly", "base",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class PowerShellCommand:
    """One simple command."""

    words: tuple[str, ...]
    quoted: tuple[bool, ...]
    """Which of the words stood in quotes: no parameter does."""
    piped: bool
    """Its input is the output of another command."""
    conditional: bool
    """It runs only where the command before it succeeded, or failed."""
    text: str


class UnsupportedSyntax(Exception):
    """It is no simple command; the message says what is not understood."""


def parse_powershell(command: str) -> tuple[PowerShellCommand, ...] | UnsupportedSyntax:
    if len(command) > _MAX_GIVEN_CHARS:
        # Not cached: megabytes would be kept for what is quick to find out.
        return UnsupportedSyntax("it is too long")
    return _parse_cached(command)


@lru_cache(maxsize=256)
def _parse_cached(command: str) -> tuple[PowerShellCommand, ...] | UnsupportedSyntax:
    try:
        return tuple(_parse_commands(command))
    except UnsupportedSyntax as problem:
        return problem


def _parse_commands(command: str) -> list[PowerShellCommand]:
    text = command.strip(" \t\n;")
    if not text:
        raise UnsupportedSyntax("it is empty")
    if len(text) > _MAX_CHARS:
        raise UnsupportedSyntax("it is too long")
    # Other quotes, dashes and blanks of Unicode mean to PowerShell what the plain ones do.
    if not text.isascii() or any(ord(letter) < 32 and letter not in "\t\n" for letter in text):
        raise UnsupportedSyntax("it holds characters that are not plain ASCII")
    found: list[PowerShellCommand] = []
    place, joined_by = 0, ""
    while True:
        one, place = _parse_command(text, place, joined_by)
        found.append(one)
        if place == len(text):
            return found
        joint = _SEPARATOR.match(text, place)
        if joint is None or joint.end() == len(text):
            raise UnsupportedSyntax(f"{text[place : place + 10]!r} is not understood")
        place, joined_by = joint.end(), joint[1]


def _parse_command(text: str, place: int, joined_by: str) -> tuple[PowerShellCommand, int]:
    start, words, quoted = place, list[str](), list[bool]()
    while True:
        word, in_quotes, place = _parse_word(text, place)
        words.append(word)
        quoted.append(in_quotes)
        blanks = _BLANKS.match(text, place)
        if blanks is None or _is_command_end(text, blanks.end()):
            break
        place = blanks.end()
    _refuse_name(words[0], in_quotes=quoted[0])
    piped, conditional = joined_by == "|", joined_by in {"&&", "||"}
    return PowerShellCommand(tuple(words), tuple(quoted), piped, conditional, text[start:place]), place


def _is_command_end(text: str, place: int) -> bool:
    return place == len(text) or text[place] in "|;\n" or text.startswith("&&", place)


def _parse_word(text: str, place: int) -> tuple[str, bool, int]:
    for pattern, quote in ((_SINGLE, "''"), (_DOUBLE, '""'), (_BARE, "")):
        found = pattern.match(text, place)
        if found is None:
            continue
        # What follows a closed quote at once may belong to the word, or not.
        if found.end() < len(text) and text[found.end()] not in " \t\n|;&":
            break
        if not quote:
            _refuse_bare(found[0])
            return found[0], False, found.end()
        return found[1].replace(quote, quote[0]), True, found.end()
    raise UnsupportedSyntax(f"{text[place : place + 10]!r} is not understood")


def _refuse_bare(word: str) -> None:
    if word == "--%":
        raise UnsupportedSyntax("--% hands the rest to another program as it is")
    if word.startswith(("~", ",")) or word.endswith(",") or ",," in word:
        raise UnsupportedSyntax(f"{word!r} is decided when it runs")


def _refuse_name(name: str, *, in_quotes: bool) -> None:
    if in_quotes or _NAME.fullmatch(name) is None or name.lower() in _KEYWORDS:
        raise UnsupportedSyntax(f"{name!r} is no plain name of a command")
