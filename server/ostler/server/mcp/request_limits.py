"""Limits the unanswered requests of an MCP server: each of them costs memory until it is answered."""

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
async def limit_requests(
    transport: "AbstractAsyncContextManager[TransportStreams]",
    on_end: Callable[[], None],
    report: Callable[[str], None],
) -> "AsyncIterator[TransportStreams]":
    """The same streams; a server with too many open requests is not read any more, and `on_end` is called.

    Of a listing, tools that the library would refuse the whole listing for are left out, and reported.
    """
    async with transport as (incoming, outgoing):
        open_requests = _OpenRequests()
        yield _ReceiveStream(incoming, open_requests, on_end, report), _SendStream(outgoing, open_requests)


@dataclass(slots=True)
class _OpenRequests:
    """Requests of the server that have no answer yet."""

    count: int = 0


@dataclass(slots=True)
class _StreamWrapper:
    inner: Any
    open_requests: _OpenRequests

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
class _ReceiveStream(_StreamWrapper):
    on_end: Callable[[], None]
    report: Callable[[str], None]

    def __aiter__(self) -> "_ReceiveStream":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> "SessionMessage | Exception":
        from mcp_types import JSONRPCRequest, JSONRPCResponse  # noqa: PLC0415 - see the package

        item: SessionMessage | Exception = await self.inner.receive()
        if isinstance(getattr(item, "message", None), JSONRPCRequest):
            self.open_requests.count += 1
            if self.open_requests.count > MAX_UNANSWERED:
                self.on_end()
                raise anyio.EndOfStream
        if isinstance(message := getattr(item, "message", None), JSONRPCResponse):
            _drop_unusable_tools(message.result, self.report)
        return item


def _drop_unusable_tools(result: Any, report: Callable[[str], None]) -> None:
    """One wrong tool must not cost all the others."""
    listed = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(listed, list):
        return
    from mcp_types import Tool  # noqa: PLC0415 - see the package
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    kept: list[Any] = []
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        schema = each.get("inputSchema") if isinstance(each, dict) else None
        if not isinstance(schema, dict) or schema.get("type") != "object":
            report(f"The tool {str(name)[:100]!r} is left out: the root of its schema is no object.")
            continue
        try:
            Tool.model_validate(each, by_name=False)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))[:100]
            report(f"The tool {str(name)[:100]!r} is left out: its {where} is not what the protocol says.")
            continue
        kept.append(each)
    result["tools"] = kept


@dataclass(slots=True)
class _SendStream(_StreamWrapper):
    async def send(self, item: "SessionMessage", /) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse  # noqa: PLC0415 - see the package

        await self.inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.open_requests.count -= 1
