"""Keeps a server in bounds that asks more than it listens: each of its requests costs memory until it is answered."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_UNANSWERED: Final = 100


@asynccontextmanager
async def bounded(
    transport: "AbstractAsyncContextManager[TransportStreams]", on_end: Callable[[], None]
) -> "AsyncIterator[TransportStreams]":
    """The same streams; whoever asks too much is not listened to any more, which `on_end` is told."""
    async with transport as (heard, said):
        open_requests = _Open()
        yield _Heard(heard, open_requests, on_end), _Said(said, open_requests)


@dataclass(slots=True)
class _Open:
    """Requests of the server that have no answer yet."""

    count: int = 0


@dataclass(slots=True)
class _Wrapped:
    inner: Any
    open_requests: _Open

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> Any:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self.inner.__aexit__(exc_type, exc_val, exc_tb)
        return closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(slots=True)
class _Heard(_Wrapped):
    on_end: Callable[[], None]

    def __aiter__(self) -> "_Heard":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> "SessionMessage | Exception":
        from mcp_types import JSONRPCRequest  # noqa: PLC0415 - see the package

        item: SessionMessage | Exception = await self.inner.receive()
        if isinstance(getattr(item, "message", None), JSONRPCRequest):
            self.open_requests.count += 1
            if self.open_requests.count > MAX_UNANSWERED:
                self.on_end()
                raise anyio.EndOfStream
        return item


@dataclass(slots=True)
class _Said(_Wrapped):
    async def send(self, item: "SessionMessage", /) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse  # noqa: PLC0415 - see the package

        await self.inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.open_requests.count -= 1
