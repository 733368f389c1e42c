"""One connection to an MCP server: reads resources, waits for their changes, and turns errors into messages."""

import base64
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio

from ostler.tools.services import ServerAnswer

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.subscriptions import Subscription

T = TypeVar("T")

MAX_CHARS: Final = 1_000_000
"""Of a resource; of a longer one only the end is read."""
REQUEST_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 5.0
"""Between two reads of a resource whose server does not announce changes."""
_FALLBACK_POLL_SECONDS: Final = 60.0
"""The same where the server does announce them: an announcement may be lost."""
_UNSUBSCRIBE_SECONDS: Final = 2.0
CALL_SECONDS: Final = 600.0
"""For a call of a tool, from the last sign of progress."""
_LIBRARY_SECONDS: Final = 86_400.0
"""The library's own limit of a call, which knows nothing of progress; ours ends before."""
_MAX_PAGES: Final = 100
_MAX_LISTED: Final = 10_000


class Unreachable(Exception):
    """The server cannot be reached, or does not give what it is asked for; the message says why."""


class NoSuchServer(Unreachable):
    """The session has no such server, or has another one by now: to try again is of no use."""


class Refused(Unreachable):
    """The server answered, and said no: the connection is as good as before."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


NextChange = Callable[[], Awaitable[None]]
"""Returns when a resource may have changed."""


class CallHandlers(Protocol):
    """What a server may do while a call of its tool runs."""

    def show_progress(self, progress: dict[str, Any]) -> None: ...

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        """Asks people for what the server wants to know; the answer in the protocol's form."""
        ...

    async def sample(self, params: dict[str, Any]) -> dict[str, Any]:
        """Asks the model for the server. Raises SamplingRefused."""
        ...


class SamplingRefused(Exception):
    """The server may not use the model; the message is for the server."""


@dataclass(slots=True)
class _RunningCall:
    """A call that a server works on: what it asks for meanwhile is asked in its name."""

    handlers: CallHandlers
    scope: anyio.CancelScope
    seconds: float
    waiting: int = 0
    """People who are asked: until they answer no time passes."""

    def touch(self) -> None:
        self.scope.deadline = float("inf") if self.waiting else anyio.current_time() + self.seconds


@dataclass(slots=True)
class Connection:
    """One connection. All that asks the server raises Unreachable."""

    client: "Client"
    redact: Callable[[str], str] = str
    """Removes secrets from the library's messages."""
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _closed: bool = False
    _watchers: Counter[str] = field(default_factory=Counter)
    """Of each resource whose changes the server was asked to announce."""
    problems: list[str] = field(default_factory=list)
    """What was left out of the server's listings, since the last one began."""
    _calls: list[_RunningCall] = field(default_factory=list)
    _listing_changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def protocol_version(self) -> str:
        return str(self.client.protocol_version)

    @property
    def speaks_older_protocol(self) -> bool:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the package

        return self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS

    def offers(self, what: str) -> bool:
        """Whether the server says that it has `tools`, `resources` or `prompts`."""
        return getattr(self.client.server_capabilities, what, None) is not None

    async def list_tools(self) -> list[dict[str, Any]]:
        """What the server declares, each as it does; none where it has no tools."""
        if not self.offers("tools"):
            return []
        self.problems.clear()
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._run_with_timeout(partial(self.client.list_tools, cursor=cursor))
            found += [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(found) >= _MAX_LISTED:
                break
        return found

    async def list_resources(self) -> list[dict[str, Any]]:
        """What can be read, and the templates of what can; as the server declares it."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._run_with_timeout(partial(self.client.list_resources, cursor=cursor))
            found += [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in page.resources]
            cursor = page.next_cursor
            if cursor is None or len(found) >= _MAX_LISTED:
                break
        with suppress(Refused):  # many a server has none, and says so with an error
            templates = await self._run_with_timeout(self.client.list_resource_templates)
            found += [
                each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in templates.resource_templates
            ]
        return found[:_MAX_LISTED]

    async def read_contents(self, uri: str) -> list[dict[str, Any]]:
        """The contents of a resource, as the server gives them."""
        result = await self._run_with_timeout(lambda: self.client.read_resource(uri, cache_mode="bypass"))
        return [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in result.contents]

    async def call_tool(
        self, tool: str, arguments: dict[str, Any], handlers: CallHandlers, seconds: float = CALL_SECONDS
    ) -> ServerAnswer:
        """Calls a tool; what the server asks for meanwhile goes to the handlers."""

        async def show(progress: float, total: float | None, message: str | None) -> None:
            running.touch()
            handlers.show_progress({"progress": progress, "total": total, "message": message})

        with self._translate_errors(), anyio.CancelScope() as scope:
            running = _RunningCall(handlers, scope, seconds)
            running.touch()
            self._calls.append(running)
            try:
                result = await self.client.call_tool(
                    tool, arguments, read_timeout_seconds=_LIBRARY_SECONDS, progress_callback=show
                )
            finally:
                self._calls.remove(running)
            return ServerAnswer(
                [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in result.content],
                result.structured_content,
                result.meta,
                bool(result.is_error),
            )
        # The connection is as good as before: it is this call that takes too long.
        raise Refused(f"The call took longer than {seconds:g} s, without a sign of progress.", 0)

    @contextmanager
    def find_handlers(self) -> Iterator[CallHandlers | None]:
        """Those of the call in whose name the server asks for something: the one that began last.

        The protocol does not say which call a request belongs to. Its time stands still meanwhile.
        """
        running = self._calls[-1] if self._calls else None
        if running is None:
            yield None
            return
        running.waiting += 1
        running.touch()
        try:
            yield running.handlers
        finally:
            running.waiting -= 1
            running.touch()

    def notify_listing_change(self) -> None:
        """The server has other tools now."""
        self._listing_changed.set()

    async def wait_for_listing_change(self) -> None:
        """Returns when the server has said that it has other tools, or when the connection is closed."""
        await self._listing_changed.wait()
        self._listing_changed = anyio.Event()

    async def read(self, uri: str) -> str:
        """The text of a resource; of what is no text, a line that changes with it."""

        async def read() -> str:
            result = await self.client.read_resource(uri, cache_mode="bypass")
            return "\n".join(_render_content(each) for each in result.contents)

        return _keep_end(await self._run_with_timeout(read))

    @asynccontextmanager
    async def watch_changes(self, uri: str) -> AsyncIterator[NextChange]:
        """Asks the server to announce changes, where it can; otherwise the resource is polled."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the package

        with self._translate_errors():
            tells, version = self.client.server_capabilities.resources, self.client.protocol_version
        if version in MODERN_PROTOCOL_VERSIONS:
            async with self._listen(uri) as next_change:
                yield next_change
        elif tells is None or not tells.subscribe:
            yield partial(anyio.sleep, _POLL_SECONDS)
        else:
            async with self._subscribe(uri) as next_change:
                yield next_change

    def close(self) -> None:
        """Wakes all who wait for changes; from now on every request raises."""
        self._closed = True
        self.notify_change()
        self._listing_changed.set()

    def notify_change(self) -> None:
        """Wakes all who wait for changes, whatever the server's message is about: they read their resources again."""
        self._changed.set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def _listen(self, uri: str) -> AsyncIterator[NextChange]:
        """Listens for changes, in the way of servers from 2026 on."""
        from mcp_types import METHOD_NOT_FOUND  # noqa: PLC0415 - see the package

        listening = self.client.listen(resource_subscriptions=[uri])
        next_change: NextChange = partial(anyio.sleep, _POLL_SECONDS)
        listens = True
        try:
            subscription = await self._run_with_timeout(listening.__aenter__)
            if subscription.honored.resource_subscriptions:
                next_change = partial(self._await_next, subscription)
        except Refused as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            listens = False
        try:
            yield next_change
        finally:
            if listens:
                await listening.__aexit__(None, None, None)

    async def _await_next(self, subscription: "Subscription") -> None:
        with self._translate_errors(), anyio.move_on_after(_FALLBACK_POLL_SECONDS):
            async for _ in subscription:
                return
            raise Unreachable("The server does not tell of changes any more.")

    @asynccontextmanager
    async def _subscribe(self, uri: str) -> AsyncIterator[NextChange]:
        """Subscribes to changes, in the way of servers before 2026."""
        import mcp_types as types  # noqa: PLC0415 - see the package

        changed = self._changed

        async def next_change() -> None:
            nonlocal changed
            with anyio.move_on_after(_FALLBACK_POLL_SECONDS):
                await changed.wait()
            changed = self._changed

        self._watchers[uri] += 1
        try:
            await self._send_request(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)))
            yield next_change
        finally:
            self._watchers[uri] -= 1
            if not self._watchers[uri]:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_UNSUBSCRIBE_SECONDS), suppress(Unreachable):
                    await self._send_request(types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri)))

    async def _send_request(self, request: Any) -> None:
        """Sends a request itself: the library's own methods for these warn of the older protocol each time."""
        from mcp_types import EmptyResult  # noqa: PLC0415 - see the package

        await self._run_with_timeout(lambda: self.client.session.send_request(request, EmptyResult))

    async def _run_with_timeout(self, work: Callable[[], Awaitable[T]]) -> T:
        """Time limit of our own: the library's starts only when a request was written, which may never be."""
        with self._translate_errors(), anyio.fail_after(REQUEST_SECONDS):
            return await work()
        raise AssertionError("what is suppressed nowhere returned or raised")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turns whatever the library raises into Unreachable: it has no common class, and groups from its tasks."""
        if self._closed:
            raise Unreachable("The connection is closed.")
        try:
            yield
        except Unreachable:
            raise
        except Exception as error:
            message = self.redact(describe_error(error))
            code = _find_error_code(error)
            raise (Unreachable(message) if code is None else Refused(message, code)) from error


def describe_error(error: BaseException) -> str:
    """One line about an error; of a group, about the first error in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return " ".join(str(error).split())[:500] or type(error).__name__


def _find_error_code(error: Exception) -> int | None:
    """The code of the server's own answer; None where the connection itself is lost."""
    from mcp import MCPError  # noqa: PLC0415 - see the package
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT  # noqa: PLC0415 - as above

    # A server that has forgotten us makes every request an invalid one.
    lost = {CONNECTION_CLOSED, REQUEST_TIMEOUT, INVALID_REQUEST}
    return error.code if isinstance(error, MCPError) and error.code not in lost else None


def _keep_end(text: str) -> str:
    """Its last lines, where it is long: what grows does so at its end."""
    if len(text) <= MAX_CHARS:
        return text
    end = text[-MAX_CHARS:]
    return end[end.find("\n") + 1 :]


def _render_content(content: Any) -> str:
    if (text := getattr(content, "text", None)) is not None:
        return str(text)
    data = base64.b64decode(content.blob)
    return f"({len(data)} bytes of {content.mime_type or 'unknown type'}, {hashlib.sha256(data).hexdigest()[:12]})"
