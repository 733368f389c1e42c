"""Filters the lines of a text by a pattern, with ripgrep, whose time is linear whatever the pattern is."""

import tempfile
from itertools import islice
from typing import IO, Final

from ostler.tools.search import ripgrep
from ostler.tools.search.ripgrep import Search
from ostler.tools.threads import read_in_thread

_MAX_CHARS: Final = 2_000
_MAX_ERROR_CHARS: Final = 1_000
"""Characters of ripgrep's error message, which repeats the pattern."""


async def find_matching_lines(pattern: str, text: str, most: int) -> list[str]:
    """The first `most` lines that match. Raises RipgrepError and RipgrepMissing."""
    file = await read_in_thread(_write_temp_file, text)
    try:
        # As text, whatever it contains; `$` is the end of a line also where a carriage return stands before it.
        arguments = ["--text", "--crlf", "--no-line-number", f"--max-count={most}", f"--regexp={pattern}", "--", "-"]
        return await ripgrep.search(arguments, lambda search: _collect_lines(search, most), file)
    finally:
        file.close()


async def check_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern, as ripgrep reports it; of a long message the end, where the error stands."""
    if len(pattern) > _MAX_CHARS:
        return f"It is longer than {_MAX_CHARS} characters."
    if "\0" in pattern:
        return "The pattern holds a NUL byte."
    try:
        await find_matching_lines(pattern, "", 1)
    except (ripgrep.RipgrepError, ripgrep.RipgrepMissing) as error:
        words = str(error)
        return words if len(words) <= _MAX_ERROR_CHARS else f"…{' '.join(words.split())[-_MAX_ERROR_CHARS:]}"
    return None


def _write_temp_file(text: str) -> IO[bytes]:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
    try:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _collect_lines(search: Search, most: int) -> list[str]:
    records = islice(search.read_records(b"\n"), most)
    return [record.removesuffix(b"\r").decode("utf-8", "replace") for record in records]
