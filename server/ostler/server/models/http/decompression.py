"""An answer that comes compressed although nobody asked for it."""

import zlib
from collections.abc import Mapping
from typing import Final

from ostler.server.models.http.errors import BadEncoding

_MAX_BYTES: Final = 1024 * 1024
"""The most that is made of what came at a time: a little can stand for very much."""
_ANY_HEADER: Final = 32 + zlib.MAX_WBITS
"""gzip and zlib, whichever it is."""


class Decompressor:
    """Takes what came and gives what it means, a piece at a time."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(_ANY_HEADER)
        self._left = b""
        self._began = False

    def feed(self, data: bytes) -> None:
        self._began = True
        self._left += data

    def take(self) -> bytes:
        """The next piece; nothing where more has to come. Raises BadEncoding."""
        try:
            piece = self._decompressor.decompress(self._left, _MAX_BYTES)
        except zlib.error as error:
            raise BadEncoding(str(error)) from error
        self._left = self._decompressor.unconsumed_tail
        return piece

    def check_end(self) -> None:
        """Raises BadEncoding where more should have come."""
        if self._began and not self._decompressor.eof:
            raise BadEncoding("its end is missing")


def find_decompressor(headers: Mapping[str, str]) -> Decompressor | None:
    """Raises BadEncoding for one that nobody here knows."""
    match headers.get("content-encoding", "").strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Decompressor()
        case other:
            raise BadEncoding(f"content-encoding {other[:50]!r}")
