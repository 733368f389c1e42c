"""Long bodies are sent in chunks, so that a connection takes them only as fast as its client reads."""

import asyncio
from collections.abc import Iterator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK_BYTES: Final = 256 * 1024
"""The most that is handed to a connection at once: it stays in memory until the client has read it."""


def split_chunks(body: bytes) -> Iterator[bytes]:
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


class ChunkedResponse(Response):
    """A response whose body is in memory as a whole and is sent in chunks: sending it at once would copy it twice."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in split_chunks(bytes(self.body)):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)  # else nobody notices that the client has left
        await send({"type": "http.response.body", "body": b"", "more_body": False})
