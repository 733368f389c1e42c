"""A server that is spoken to over HTTP: its answers are bounded, and what it answers instead of one is kept."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ostler.server.mcp.server_config import Address
from ostler.server.mcp.stdio import MAX_LINE_BYTES, Remarks

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS: Final = 30.0
_STREAM: Final = "text/event-stream"
_FAILED: Final = 400


@asynccontextmanager
async def over_http(
    server: Address, remarks: Remarks
) -> "AsyncIterator[AbstractAsyncContextManager[TransportStreams]]":
    import httpx2  # noqa: PLC0415 - see the package
    from mcp.client.sse import sse_client  # noqa: PLC0415 - as above
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

    # Without a limit for what is to come: a stream says nothing while nothing happens.
    limits = httpx2.Timeout(_CONNECT_SECONDS, read=None)
    hooks = {"response": [_looker(remarks)]}

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=dict(server.headers), timeout=limits, event_hooks=hooks)

    if server.kind == "sse":
        yield sse_client(server.url, httpx_client_factory=client)
        return
    async with client() as opened:
        yield streamable_http_client(server.url, http_client=opened, max_sse_event_size=MAX_LINE_BYTES)


def _looker(remarks: Remarks) -> "Callable[[httpx2.Response], Awaitable[None]]":
    async def look(response: "httpx2.Response") -> None:
        if response.status_code >= _FAILED:
            # The library only says that there was an error. 401: it wants a sign-in, which nobody here can do yet.
            remarks.add(f"{response.status_code} {response.reason_phrase}\n".encode())
        if not response.headers.get("content-type", "").startswith(_STREAM):
            response.stream = _bounded(response.stream)

    return look


def _bounded(stream: Any) -> Any:
    import httpx2  # noqa: PLC0415 - see the package

    class Bounded(httpx2.AsyncByteStream):
        """What is no stream is one answer."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_LINE_BYTES:
                    raise httpx2.ReadError(f"the answer is longer than {MAX_LINE_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
