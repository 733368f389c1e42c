"""A second, strict reader for plain commands: what it and the tree do not agree on is not understood.

It knows words, the operators `&&`, `||`, `;`, `|` and newline, comments and simple redirections, and nothing else.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from ostler.tools.commands.words import Word, scan_word

RESERVED: Final = frozenset({
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "until", "while", "{", "}", "[[", "]]", "time",
})  # fmt: skip
_SEPARATOR: Final = re.compile(r"&&|\|\|?(?!&)|;(?![;&])|\n")
_REDIRECTION: Final = re.compile(r"&>>|&>|>>|>\||>&|<&|>|<(?![<>(])")
_SKIPPED: Final = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")


@dataclass(slots=True)
class PlainCommand:
    """One simple command: its words, and its redirections as descriptor, operator and target."""

    words: list[Word] = field(default_factory=list)
    redirections: list[tuple[str, str, Word]] = field(default_factory=list)


def read_plain(text: str) -> list[PlainCommand] | None:
    """The simple commands of a plain command; None where it is not one."""
    reader = _Reader(text)
    if not reader.read():
        return None
    return reader.commands if all(_is_plain(command) for command in reader.commands) else None


def _is_plain(command: PlainCommand) -> bool:
    first = command.words[0]
    words = [*command.words, *(target for _, _, target in command.redirections)]
    return (
        all(word.kind != "unknown" for word in words)
        and first.kind == "literal"
        and first.source not in RESERVED
        and not ASSIGNMENT.match(first.source)
    )


class _Reader:
    __slots__ = ("commands", "open", "place", "text", "waiting")

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.commands: list[PlainCommand] = []
        self.open: PlainCommand | None = None
        self.waiting = False
        """An operator wants a command after it, newlines aside."""

    def read(self) -> bool:
        while self.place < len(self.text):
            if not self._step():
                return False
        return bool(self.commands) and not self.waiting and (self.open is None or bool(self.open.words))

    def _step(self) -> bool:
        if skipped := _SKIPPED.match(self.text, self.place):
            self.place = skipped.end()
            return True
        if self.text[self.place] == "#":
            self.place = _end(_COMMENT.match(self.text, self.place))
            return True
        if redirection := _REDIRECTION.match(self.text, self.place):
            return self._redirection("", redirection)
        if separator := _SEPARATOR.match(self.text, self.place):
            self.place = separator.end()
            return self._separator(separator.group())
        return self._word()

    def _separator(self, operator: str) -> bool:
        if self.open is None:
            return operator == "\n"
        if not self.open.words:
            return False
        self.open = None
        self.waiting = operator in {"&&", "||", "|"}
        return True

    def _word(self) -> bool:
        word, end = scan_word(self.text, self.place)
        if end == self.place:
            return False
        self.place = end
        if word.source.isdecimal() and (redirection := _REDIRECTION.match(self.text, end)):
            return not redirection.group().startswith("&") and self._redirection(word.source, redirection)
        self._command().words.append(word)
        return True

    def _redirection(self, fd: str, found: re.Match[str]) -> bool:
        blank = _SKIPPED.match(self.text, found.end())
        start = blank.end() if blank else found.end()
        word, end = scan_word(self.text, start)
        # A comment sign or a number before the next sign would be read otherwise by the shell.
        following = self.text[end : end + 1]
        if end == start or word.source.startswith("#") or following in {"<", ">", "("}:
            return False
        self.place = end
        self._command().redirections.append((fd, found.group(), word))
        return True

    def _command(self) -> PlainCommand:
        if self.open is None:
            self.open = PlainCommand()
            self.commands.append(self.open)
            self.waiting = False
        return self.open


def _end(found: re.Match[str] | None) -> int:
    assert found is not None
    return found.end()
