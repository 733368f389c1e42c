"""The lines of a text that match a pattern, found by ripgrep, whose time does not explode whatever the pattern is."""

import tempfile
from itertools import islice
from typing import IO, Final

from ostler.tools.search import ripgrep
from ostler.tools.search.ripgrep import Search
from ostler.tools.threads import read_in_thread

_MAX_CHARS: Final = 2_000
_MAX_WORDS: Final = 1_000
"""Of what ripgrep says about a pattern, which it repeats."""


async def matching_lines(pattern: str, text: str, most: int) -> list[str]:
    """The first so many. Raises ripgrep's Complaint and Missing."""
    file = await read_in_thread(_written, text)
    try:
        # As text, whatever stands in it; `$` is the end of a line also where a carriage return stands before it.
        arguments = ["--text", "--crlf", "--no-line-number", f"--max-count={most}", f"--regexp={pattern}", "--", "-"]
        return await ripgrep.search(arguments, lambda search: _collected(search, most), file)
    finally:
        file.close()


async def flaw(pattern: str) -> str | None:
    """What is wrong with a pattern, in ripgrep's words; of many the end, where it says what it is."""
    if len(pattern) > _MAX_CHARS:
        return f"It is longer than {_MAX_CHARS} characters."
    if "\0" in pattern:
        return "The pattern holds a NUL byte."
    try:
        await matching_lines(pattern, "", 1)
    except (ripgrep.Complaint, ripgrep.Missing) as error:
        words = str(error)
        return words if len(words) <= _MAX_WORDS else f"…{' '.join(words.split())[-_MAX_WORDS:]}"
    return None


def _written(text: str) -> IO[bytes]:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
    try:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _collected(search: Search, most: int) -> list[str]:
    records = islice(search.records(b"\n"), most)
    return [record.removesuffix(b"\r").decode("utf-8", "replace") for record in records]
