"""Persisted results for Read and Grep: the path `result://ID`, and the text as a temporary file."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Final

from ostler.protocol.ids import ResultId
from ostler.tools.threads import read_in_thread

_SCHEME: Final = "result://"
_CHUNK_CHARS: Final = 1024 * 1024
"""Characters that are written in one call on a thread."""


def parse_result_path(path: str | None) -> ResultId | None:
    """The result that a path names; null for the path of a file."""
    return ResultId(path.removeprefix(_SCHEME)) if path is not None and path.startswith(_SCHEME) else None


@asynccontextmanager
async def spool(pieces: AsyncIterator[str]) -> AsyncIterator[IO[bytes]]:
    """Writes the text to an unnamed temporary file, for a program that reads it: it is not kept in memory."""
    file: IO[bytes] = await read_in_thread(tempfile.TemporaryFile)
    try:
        waiting: list[str] = []
        chars = 0
        async for piece in pieces:
            waiting.append(piece)
            chars += len(piece)
            if chars >= _CHUNK_CHARS:
                await read_in_thread(_write, file, waiting)
                waiting, chars = [], 0
        await read_in_thread(_write, file, waiting)
        await read_in_thread(file.seek, 0)
        yield file
    finally:
        # On cancellation a write may still be under way on its thread, and finds a closed file: nobody needs it.
        file.close()


def _write(file: IO[bytes], pieces: list[str]) -> None:
    for piece in pieces:
        file.write(piece.encode("utf-8", "replace"))
