"""Long bodies on their way out: in pieces, so that the connection takes them as its client does."""

import asyncio
from collections.abc import Iterator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK_BYTES: Final = 256 * 1024
"""The most that is handed to a connection at once: it stays in memory until the client has taken it."""


def chunks(body: bytes) -> Iterator[bytes]:
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


class LongResponse(Response):
    """A body that is there as a whole, and sent bit by bit: to give it away at once would copy it twice."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in chunks(bytes(self.body)):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)  # else nobody notices that the client has left
        await send({"type": "http.response.body", "body": b"", "more_body": False})
