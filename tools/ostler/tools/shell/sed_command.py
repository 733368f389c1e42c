"""Parses `sed -i 's/a/b/' FILE…`: commands that do nothing but edit the files that they name."""

from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands

_MAX_FILES: Final = 20
_FLAGS: Final = compile_later(r"(?:[gI]|i|[1-9][0-9]{0,5})*")
_ADDRESS: Final = compile_later(r"(?:[1-9][0-9]{0,8}|\$)(?:,(?:[1-9][0-9]{0,8}|\$))?")
_BETWEEN: Final = compile_later(r"[ \t]*;[ \t;]*")
_DELIMITERS: Final = frozenset("/|#,:;!%@+=~^&*?.-_'\"<>()[]{}$")


@dataclass(frozen=True, slots=True)
class SedCommand:
    """The expressions, and the files that they are applied to."""

    expressions: tuple[str, ...]
    extended: bool
    files: tuple[str, ...]
    """As they are written."""

    @property
    def arguments(self) -> list[str]:
        """For a sed that filters its standard input instead of files."""
        flags = ["-E"] if self.extended else []
        return [*flags, *(part for each in self.expressions for part in ("-e", each))]


def parse_sed_command(command: str) -> SedCommand | None:
    """Null for a command that does, or may do, more than edit files; it is run as it is."""
    if "sed" not in command:
        return None
    reading = commands.parse_command(command)
    if reading.problem is not None or not reading.plain or len(reading.parts) != 1:
        return None
    part = reading.parts[0]
    if part.assignments or part.redirections or part.inside or part.folders != ("",):
        return None
    words = part.literal_words
    return _parse_arguments(words[1:]) if words is not None and words[0] == "sed" else None


def _parse_arguments(words: tuple[str, ...]) -> SedCommand | None:
    expressions: list[str] = []
    operands: list[str] = []
    in_place = extended = only_operands = False
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if only_operands or not word.startswith("-") or word == "-":
            operands.append(word)
        elif word == "--":
            only_operands = True
        elif word in {"-i", "--in-place"}:
            in_place = True
        elif word in {"-E", "-r", "--regexp-extended"}:
            extended = True
        elif word in {"-Ei", "-ri"}:  # and not `-iE`, which keeps the old file as `fileE`
            in_place = extended = True
        elif word in {"-e", "--expression"} and waiting:
            expressions.append(waiting.pop())
        elif word.startswith("--expression="):
            expressions.append(word.removeprefix("--expression="))
        else:
            return None
    if not expressions and operands:
        expressions.append(operands.pop(0))
    if not in_place or not expressions or not 0 < len(operands) <= _MAX_FILES or "-" in operands:
        return None
    if not all(map(_only_substitutes, expressions)) or len(set(operands)) != len(operands):
        return None
    return SedCommand(tuple(expressions), extended, tuple(operands))


def _only_substitutes(expression: str) -> bool:
    """One `s` after the other, each for all lines or for some by their number; nothing that writes, reads or runs."""
    place = 0
    if "\n" in expression:
        return False
    while True:
        end = _match_substitution(expression, place)
        if end is None:
            return False
        if end == len(expression):
            return True
        between = _BETWEEN.match(expression, end)
        if between is None:
            return False
        place = between.end()
        if place == len(expression):
            return True


def _match_substitution(text: str, place: int) -> int | None:
    """The end of the substitution that begins here; null where none does."""
    address = _ADDRESS.match(text, place)
    place = address.end() if address else place
    if text[place : place + 1] != "s":
        return None
    delimiter = text[place + 1 : place + 2]
    if not delimiter or delimiter not in _DELIMITERS:
        return None
    middle = _find_delimiter_end(text, place + 2, delimiter)
    last = _find_delimiter_end(text, middle, delimiter) if middle is not None else None
    if last is None:
        return None
    flags = _FLAGS.match(text, last)
    return flags.end() if flags is not None else last


def _find_delimiter_end(text: str, place: int, delimiter: str) -> int | None:
    """The index after the next delimiter that is not escaped by a backslash; sed ignores brackets here."""
    while place < len(text):
        if text[place] == delimiter:
            return place + 1
        place += 2 if text[place] == "\\" else 1
    return None
