"""Long bodies are sent in chunks, so that a connection takes them only as fast as its client reads."""

from collections.abc import Iterator
from typing import Final

CHUNK_BYTES: Final = 256 * 1024
"""The most that is handed to a connection at once: it stays in memory until the client has read it."""


def split_chunks(body: bytes) -> Iterator[bytes]:
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))
