"""A site that answers what a test says, byte for byte."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.support.connections import serve_connections

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def respond(body: bytes | str = b"", *headers: str, code: int = 200, media_type: str = "text/html") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(data)}", "Connection: close", *headers]
    if media_type:
        lines.append(f"Content-Type: {media_type}")
    return "\r\n".join([*lines, "", ""]).encode() + data


def redirect(location: str) -> bytes:
    return respond(b"moved", f"Location: {location}", code=302)


class Site:
    """Serves its pages by path on a free port of 127.0.0.1; what else is asked for is not there."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.requests: list[str] = []
        """The request lines and headers that came."""

    async def __aenter__(self) -> "Site":
        self._server = serve_connections(self._answer)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__(None, None, None)

    def put(self, path: str, answer: Answer) -> str:
        """The address of a page that it has from now on."""
        self.pages[path] = answer
        return self.url(path)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        path = head.split(" ")[1]
        answer = self.pages.get(path, respond("nothing here", code=404))
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)
