"""One connection to an MCP server, as whoever uses it sees it."""

import base64
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.subscriptions import Subscription

T = TypeVar("T")

MAX_CHARS: Final = 1_000_000
"""Of a resource; of a longer one the end is looked at."""
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


class Refused(Unreachable):
    """The server answered, and said no: the connection is as good as before."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


NextChange = Callable[[], Awaitable[None]]
"""Returns when a resource may have changed."""


@dataclass(slots=True)
class Connection:
    """Everything here raises Unreachable."""

    client: "Client"
    hide: Callable[[str], str] = str
    """Takes out of the library's words what nobody is to see."""
    _news: anyio.Event = field(default_factory=anyio.Event)
    _closed: bool = False
    _watchers: Counter[str] = field(default_factory=Counter)
    """Of each resource that the server was asked to tell of."""

    async def read(self, uri: str) -> str:
        """The text of a resource; of what is no text, a line that changes with it."""

        async def read() -> str:
            result = await self.client.read_resource(uri, cache_mode="bypass")
            return "\n".join(_shown(each) for each in result.contents)

        return _end_of(await self._in_time(read))

    @asynccontextmanager
    async def changes(self, uri: str) -> AsyncIterator[NextChange]:
        """Asks the server to tell of changes, where it can; otherwise the resource is looked at now and then."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the package

        with self._saying_why():
            tells, version = self.client.server_capabilities.resources, self.client.protocol_version
        if version in MODERN_PROTOCOL_VERSIONS:
            async with self._listening(uri) as next_change:
                yield next_change
        elif tells is None or not tells.subscribe:
            yield partial(anyio.sleep, _POLL_SECONDS)
        else:
            async with self._subscribed(uri) as next_change:
                yield next_change

    def close(self) -> None:
        """It is over: whoever waits for the server's words looks, and hears that."""
        self._closed = True
        self.tell()

    def tell(self) -> None:
        """The server said that something changed: whoever waits looks, whatever it is about."""
        self._news.set()
        self._news = anyio.Event()

    @asynccontextmanager
    async def _listening(self, uri: str) -> AsyncIterator[NextChange]:
        """As servers from 2026 on have it."""
        from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415 - see the package

        listening = self.client.listen(resource_subscriptions=[uri])
        next_change: NextChange = partial(anyio.sleep, _POLL_SECONDS)
        listens = True
        try:
            subscription = await self._in_time(listening.__aenter__)
            if subscription.honored.resource_subscriptions:
                next_change = partial(self._next_of, subscription)
        except Refused as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            listens = False
        try:
            yield next_change
        finally:
            if listens:
                await listening.__aexit__(None, None, None)

    async def _next_of(self, subscription: "Subscription") -> None:
        with self._saying_why(), anyio.move_on_after(_LOOK_SECONDS):
            async for _ in subscription:
                return
            raise Unreachable("The server does not tell of changes any more.")

    @asynccontextmanager
    async def _subscribed(self, uri: str) -> AsyncIterator[NextChange]:
        """As servers before 2026 have it."""
        import mcp_types as types  # noqa: PLC0415 - see the package

        news = self._news

        async def next_change() -> None:
            nonlocal news
            with anyio.move_on_after(_LOOK_SECONDS):
                await news.wait()
            news = self._news

        self._watchers[uri] += 1
        try:
            await self._ask(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)))
            yield next_change
        finally:
            self._watchers[uri] -= 1
            if not self._watchers[uri]:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_PARTING_SECONDS), suppress(Unreachable):
                    await self._ask(types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri)))

    async def _ask(self, request: Any) -> None:
        """The library's own methods for these say that they are of an older protocol, each time."""
        from mcp_types import EmptyResult  # noqa: PLC0415 - see the package

        await self._in_time(lambda: self.client.session.send_request(request, EmptyResult))

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        """The library counts only from when a request was written, which may never be."""
        with self._saying_why(), anyio.fail_after(REQUEST_SECONDS):
            return await work()
        raise AssertionError("what is suppressed nowhere returned or raised")

    @contextmanager
    def _saying_why(self) -> Iterator[None]:
        """Whatever the library raises becomes words: it has no common class, and groups from its tasks."""
        if self._closed:
            raise Unreachable("The connection is closed.")
        try:
            yield
        except Unreachable:
            raise
        except Exception as error:
            words = self.hide(words_of(error))
            code = _refusal(error)
            raise (Unreachable(words) if code is None else Refused(words, code)) from error


def words_of(error: BaseException) -> str:
    """Of a group, the first that is in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return " ".join(str(error).split())[:500] or type(error).__name__


def _refusal(error: Exception) -> int | None:
    """The code of the server's own answer; null where the connection itself is no good."""
    from mcp import MCPError  # noqa: PLC0415 - see the package
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT  # noqa: PLC0415 - as above

    # A server that has forgotten us makes every request an invalid one.
    lost = {CONNECTION_CLOSED, REQUEST_TIMEOUT, INVALID_REQUEST}
    return error.code if isinstance(error, MCPError) and error.code not in lost else None


def _end_of(text: str) -> str:
    """Its last lines, where it is long: what grows does so at its end."""
    if len(text) <= MAX_CHARS:
        return text
    end = text[-MAX_CHARS:]
    return end[end.find("\n") + 1 :]


def _shown(content: Any) -> str:
    if (text := getattr(content, "text", None)) is not None:
        return str(text)
    data = base64.b64decode(content.blob)
    return f"({len(data)} bytes of {content.mime_type or 'unknown type'}, {hashlib.sha256(data).hexdigest()[:12]})"
