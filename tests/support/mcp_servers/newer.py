"""A real MCP server of 2026, on the library: the same resource, over standard streams or over HTTP.

`python newer.py FILE stdio`, or `python newer.py FILE http|sse PORT`, which want the header `Authorization: Bearer k`.
Over `sse`, which is of 2024, it tells nobody of changes.
"""

import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from starlette.responses import PlainTextResponse

URI = "notes://log"


def make_server(path: Path, bus: InMemorySubscriptionBus) -> Server[Any]:
    async def read(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = await anyio.Path(path).read_text()
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

    listen = None if sys.argv[2] == "sse" else ListenHandler(bus)
    return Server("newer", on_read_resource=read, on_subscriptions_listen=listen)


async def watch(path: Path, bus: InMemorySubscriptionBus) -> None:
    known = await anyio.Path(path).read_bytes()
    while True:
        await anyio.sleep(0.02)
        if (now := await anyio.Path(path).read_bytes()) != known:
            known = now
            await bus.publish(ResourceUpdated(uri=URI))


def make_sse_app(server: Server[Any]) -> Any:
    transport = SseServerTransport("/messages/")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != "/sse":
            await transport.handle_post_message(scope, receive, send)
            return
        async with transport.connect_sse(scope, receive, send) as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())

    return app


def require_token(app: Any) -> Any:
    async def check_token(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"authorization", b"Bearer k") not in scope["headers"]:
            await PlainTextResponse("who are you?", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return check_token


async def main() -> None:
    path, bus = Path(sys.argv[1]), InMemorySubscriptionBus()
    server = make_server(path, bus)
    async with anyio.create_task_group() as group:
        group.start_soon(watch, path, bus)
        if sys.argv[2] == "stdio":
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        else:
            app = require_token(server.streamable_http_app() if sys.argv[2] == "http" else make_sse_app(server))
            config = uvicorn.Config(app, port=int(sys.argv[3]), log_level="error")
            await uvicorn.Server(config).serve()
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
