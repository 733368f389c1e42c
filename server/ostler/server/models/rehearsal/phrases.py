"""Phrases of a request, in which quoted text is data: it is never searched for verbs and joining words."""

import re
import string
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later

# A backslash outside of quotes hides the mark after it, as it does inside; so each mark is looked at once, and a
# request full of marks that nobody closes costs no more than another one.
_QUOTED: Final = compile_later(
    r"""\\.|```[^\n`]*\n.*?```|"(?>(?:[^"\\]++|\\.)*)"|`[^`\n]*+`|(?<!\w)'(?>(?:[^'\\]++|\\.)*)'(?!\w)|“[^“”]*+”""",
    re.DOTALL,
)
_ESCAPE: Final = compile_later(r"\\([nt\"'\\])")
_ESCAPED: Final = {"n": "\n", "t": "\t"}
_LOWER: Final = str.maketrans(string.ascii_uppercase + "\t\r", string.ascii_lowercase + "  ")
_HIDDEN: Final = "\0"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a request, and the same piece in small letters with all that is quoted hidden."""

    text: str
    mask: str

    def __bool__(self) -> bool:
        return bool(self.text)

    def cut(self, start: int, end: int | None = None) -> "Phrase":
        """The piece from here to there, without the blanks around it."""
        mask = self.mask[start:end]
        stripped = mask.strip()
        lead = start + len(mask) - len(mask.lstrip())
        return Phrase(self.text[lead : lead + len(stripped)], stripped)

    def strip_prefix(self, pattern: re.Pattern[str]) -> "Phrase":
        """The phrase without the pattern at its start, where that is there."""
        found = pattern.match(self.mask)
        return self.cut(found.end()) if found else self

    def split_at(self, word: str, *, last: bool = False) -> tuple["Phrase", "Phrase"] | None:
        """What stands before and after the first (or last) such word."""
        mask = self.mask.replace("\n", " ")
        at = (mask.rfind if last else mask.find)(f" {word} ")
        return None if at < 0 else (self.cut(0, at), self.cut(at + len(word) + 2))

    def split(self, separator: re.Pattern[str]) -> list["Phrase"]:
        """The non-empty pieces between the separators."""
        found: list[Phrase] = []
        start = 0
        for match in separator.finditer(self.mask):
            found.append(self.cut(start, match.start()))
            start = match.end()
        found.append(self.cut(start))
        return [part for part in found if part]

    @property
    def quoted(self) -> bool:
        """Is all of it one quoted text?"""
        return self.mask.startswith(_HIDDEN) and not self.mask.strip(_HIDDEN) and _is_one_quotation(self.text)

    @property
    def value(self) -> str:
        """What it says, without the quotation marks."""
        return _unquote(self.text) if self.quoted else self.text


def parse_phrase(text: str) -> Phrase:
    plain = text.replace(_HIDDEN, " ")
    mask = _QUOTED.sub(_hide_quoted, plain).translate(_LOWER)
    return Phrase(plain, mask).cut(0)


def _hide_quoted(match: re.Match[str]) -> str:
    found = match.group()
    return found.lower() if found.startswith("\\") and len(found.lower()) == len(found) else _HIDDEN * len(found)


def _is_one_quotation(text: str) -> bool:
    found = _QUOTED.match(text)
    return found is not None and found.end() == len(text)


def _unquote(text: str) -> str:
    if text.startswith("```"):
        return text[text.index("\n") + 1 : -3]
    inner = text[1:-1]
    if text[0] in "\"'":
        return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), inner)
    return inner
