"""The floor of a relay: bare asyncio that passes bytes on from one connection to another."""

import asyncio
import json
import sys
from typing import Any


class _ClientConnection(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.transport: asyncio.Transport
        self._connect_task: asyncio.Task[Any] | None = None
        self._server: _ServerConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._server is not None:
            self._server.transport.write(data)
        else:
            self._connect_task = asyncio.get_running_loop().create_task(self._open(data))

    async def _open(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, self._server = await loop.create_connection(lambda: _ServerConnection(self), "127.0.0.1", self._port)
        self._server.transport.write(data)


class _ServerConnection(asyncio.Protocol):
    """The connection to the server."""

    def __init__(self, outer: _ClientConnection) -> None:
        self._client = outer
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._client.transport.write(data)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _ClientConnection(port), "127.0.0.1", 0)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())["port"]))
