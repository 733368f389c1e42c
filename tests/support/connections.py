"""A TCP server whose connections end with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_connections(serve: Serve) -> AsyncIterator[int]:
    """Does this with each connection, on a free port of 127.0.0.1.

    asyncio's own server leaves its open connections to the garbage collector, which warns in whatever test comes next.
    """
    open_connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_connections[task] = writer
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has left
            await serve(reader, writer)
            writer.close()
            await writer.wait_closed()
        writer.transport.abort()
        del open_connections[task]

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = dict(open_connections)
        for task, writer in left.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*left, return_exceptions=True)
        # What was aborted closes its socket in the loop's next round.
        await asyncio.sleep(0)
