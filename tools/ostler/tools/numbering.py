"""Lines as the model reads them: numbered, and none of them endless."""

from typing import Final

MAX_LINE: Final = 2_000


def cut(line: str) -> str:
    """A long line without its end, which is said."""
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… (cut after {MAX_LINE} characters)"


def numbered(number: int, line: str) -> str:
    """As `cat -n` writes it."""
    return f"{number:6}\t{line}"
