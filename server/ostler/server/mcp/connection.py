"""One connection to an MCP server, as whoever uses it sees it."""

import base64
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.subscriptions import Subscription

MAX_CHARS: Final = 1_000_000
"""Of a resource; the rest is not looked at."""
REQUEST_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 5.0
"""Between two looks at a resource whose server does not tell of changes."""
_LOOK_SECONDS: Final = 60.0
"""Between two looks at one whose server does: a word of it may be lost."""
_PARTING_SECONDS: Final = 2.0


class Unreachable(Exception):
    """The server cannot be spoken to, or does not give what it is asked for; the words say why."""


class NotThere(Unreachable):
    """The session has no such server, or has another one by now: to try again is of no use."""


NextChange = Callable[[], Awaitable[None]]
"""Returns when a resource may have changed."""


@dataclass(slots=True)
class Connection:
    """Everything here raises Unreachable."""

    client: "Client"
    _news: anyio.Event = field(default_factory=anyio.Event)
    _watchers: Counter[str] = field(default_factory=Counter)
    """Of each resource that the server was asked to tell of."""

    async def read(self, uri: str) -> str:
        """The text of a resource; of what is no text, a line that changes with it."""
        with saying_why():
            result = await self.client.read_resource(uri, cache_mode="bypass")
        return "\n".join(_shown(each) for each in result.contents)[:MAX_CHARS]

    @asynccontextmanager
    async def changes(self, uri: str) -> AsyncIterator[NextChange]:
        """Asks the server to tell of changes, where it can; otherwise the resource is looked at now and then."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the package

        tells = self.client.server_capabilities.resources
        if self.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            async with self._listening(uri) as next_change:
                yield next_change
        elif tells is None or not tells.subscribe:
            yield partial(anyio.sleep, _POLL_SECONDS)
        else:
            async with self._subscribed(uri) as next_change:
                yield next_change

    def tell(self) -> None:
        """The server said that something changed: whoever waits looks, whatever it is about."""
        self._news.set()
        self._news = anyio.Event()

    @asynccontextmanager
    async def _listening(self, uri: str) -> AsyncIterator[NextChange]:
        """As servers from 2026 on have it."""
        from mcp import MCPError  # noqa: PLC0415 - see the package
        from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415 - as above

        listening = self.client.listen(resource_subscriptions=[uri])
        try:
            with saying_why():
                subscription = await listening.__aenter__()
        except Unreachable as error:
            if isinstance(error.__cause__, MCPError) and error.__cause__.code == METHOD_NOT_FOUND:
                yield partial(anyio.sleep, _POLL_SECONDS)
                return
            raise
        try:
            if subscription.honored.resource_subscriptions:
                yield partial(_next_of, subscription)
            else:
                yield partial(anyio.sleep, _POLL_SECONDS)
        finally:
            await listening.__aexit__(None, None, None)

    @asynccontextmanager
    async def _subscribed(self, uri: str) -> AsyncIterator[NextChange]:
        """As servers before 2026 have it."""
        news = self._news

        async def next_change() -> None:
            nonlocal news
            with anyio.move_on_after(_LOOK_SECONDS):
                await news.wait()
            news = self._news

        self._watchers[uri] += 1
        try:
            await self._ask_to_tell(uri)
            yield next_change
        finally:
            self._watchers[uri] -= 1
            if not self._watchers[uri]:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_PARTING_SECONDS), suppress(Unreachable):
                    await self._ask_not_to_tell(uri)

    # The library's own methods for these two say that they are of an older protocol, each time.

    async def _ask_to_tell(self, uri: str) -> None:
        import mcp_types as types  # noqa: PLC0415 - see the package

        asked = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        with saying_why():
            await self.client.session.send_request(asked, types.EmptyResult)

    async def _ask_not_to_tell(self, uri: str) -> None:
        import mcp_types as types  # noqa: PLC0415 - see the package

        asked = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        with saying_why():
            await self.client.session.send_request(asked, types.EmptyResult)


async def _next_of(subscription: "Subscription") -> None:
    with saying_why(), anyio.move_on_after(_LOOK_SECONDS):
        async for _ in subscription:
            return
        raise Unreachable("The server does not tell of changes any more.")


@contextmanager
def saying_why() -> Iterator[None]:
    """Whatever the library raises becomes words: it has no common class, and groups from its tasks."""
    try:
        yield
    except Unreachable:
        raise
    except Exception as error:
        raise Unreachable(words_of(error)) from error


def words_of(error: BaseException) -> str:
    """Of a group, the first that is in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return " ".join(str(error).split())[:500] or type(error).__name__


def _shown(content: Any) -> str:
    if (text := getattr(content, "text", None)) is not None:
        return str(text)
    data = base64.b64decode(content.blob)
    return f"({len(data)} bytes of {content.mime_type or 'unknown type'}, {hashlib.sha256(data).hexdigest()[:12]})"
