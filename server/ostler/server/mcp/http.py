"""Transport to an MCP server over HTTP: limits the size of its answers, and keeps its error statuses."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ostler.server.mcp.server_config import HttpServerConfig
from ostler.server.mcp.stdio import MAX_LINE_BYTES, Diagnostics

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS: Final = 30.0
_EVENT_STREAM: Final = "text/event-stream"
_ERROR_STATUS: Final = 400


@asynccontextmanager
async def open_http(
    server: HttpServerConfig, diagnostics: Diagnostics
) -> "AsyncIterator[AbstractAsyncContextManager[TransportStreams]]":
    import httpx2  # noqa: PLC0415 - see the package
    from mcp.client.sse import sse_client  # noqa: PLC0415 - as above
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

    # Without a time limit for reading: a stream is silent while nothing happens.
    limits = httpx2.Timeout(_CONNECT_SECONDS, read=None)
    hooks = {"response": [_build_response_hook(diagnostics)]}

    def create_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=dict(server.headers), timeout=limits, event_hooks=hooks)

    if server.kind == "sse":
        yield sse_client(server.url, httpx_client_factory=create_client)
        return
    async with create_client() as http_client:
        yield streamable_http_client(server.url, http_client=http_client, max_sse_event_size=MAX_LINE_BYTES)


def _build_response_hook(diagnostics: Diagnostics) -> "Callable[[httpx2.Response], Awaitable[None]]":
    async def check_response(response: "httpx2.Response") -> None:
        if response.status_code >= _ERROR_STATUS:
            # The library only says that there was an error. 401: it wants a sign-in, which nobody here can do yet.
            diagnostics.add(f"{response.status_code} {response.reason_phrase}\n".encode())
        if not response.headers.get("content-type", "").startswith(_EVENT_STREAM):
            response.stream = _limit_stream(response.stream)

    return check_response


def _limit_stream(stream: Any) -> Any:
    import httpx2  # noqa: PLC0415 - see the package

    class LimitedStream(httpx2.AsyncByteStream):
        """A response that is no event stream: one answer, of a limited size."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_LINE_BYTES:
                    raise httpx2.ReadError(f"the answer is longer than {MAX_LINE_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return LimitedStream()
