"""The Messages API: Anthropic's own, or any server that speaks it (`ANTHROPIC_BASE_URL`)."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ostler.server.models.pricing import knows_extras
from ostler.server.models.provider import ModelFailure, ModelRequest, RawEvent
from ostler.tools.threads import read_in_thread

if TYPE_CHECKING:
    from ostler.server.models.anthropic.client import AnthropicClient

_PLACEHOLDER_KEY: Final = "none"
"""For servers that ask for no key; some want a header all the same."""
_ANTHROPIC_HOST: Final = "api.anthropic.com"
_CLOSE_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """The address, the key and the time limits of requests."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    connect_seconds: float = 20
    silence_seconds: float = 120
    tool_extras: Literal["auto", "always", "never"] = "auto"
    needs_sdk: bool = False
    """Whether more is set than an address and a key: what it means, the SDK knows."""

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        *,
        connect_seconds: float,
        silence_seconds: float,
        tool_extras: Literal["auto", "always", "never"] = "auto",
    ) -> Self:
        """From the same variables that the SDK reads. The key counts where both key and token are set."""
        base_url, key, token = (
            environment.get(f"ANTHROPIC_{name}", "").strip() or None for name in ("BASE_URL", "API_KEY", "AUTH_TOKEN")
        )
        if key is None and token is None and base_url is not None:
            key = _PLACEHOLDER_KEY
        needs_sdk = "ANTHROPIC_CUSTOM_HEADERS" in environment
        return cls(base_url, key, None if key else token, connect_seconds, silence_seconds, tool_extras, needs_sdk)

    def find_problem(self) -> str | None:
        """Why no request can be sent with these settings; None where they are fine."""
        secret = self.api_key or self.auth_token
        if secret is None:
            return "No key is set: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a local model."
        if not (secret.isascii() and secret.isprintable()):
            return "The key has characters that no key has: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN again."
        if self.base_url is not None and not _is_address(self.base_url):
            return f"ANTHROPIC_BASE_URL is no address of a server: {self.base_url!r}. Example: http://127.0.0.1:11434"
        return None

    @property
    def is_anthropic(self) -> bool:
        """Whether it is Anthropic itself that answers, and not a server that speaks like it."""
        host = urlsplit(self.base_url).hostname if self.base_url else _ANTHROPIC_HOST
        return host == _ANTHROPIC_HOST


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class AnthropicProvider:
    """One client and its connections, shared by all sessions."""

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._client: AnthropicClient | None = None
        self._closed = False
        self._without_extras: set[str] = set()
        """Models that have refused them."""
        self._open_lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)

    async def warm_up(self) -> None:
        """Import the HTTP client in a thread, so that the first request need not wait for it."""
        await self.open_client()

    def stream(self, request: ModelRequest) -> "_StreamedRequest":
        """Send the request; see `Provider`."""
        return _StreamedRequest(self, request)

    def takes_extras(self, model: str) -> bool:
        """See `Provider`."""
        if self._settings.tool_extras == "never" or model in self._without_extras:
            return False
        return self._settings.tool_extras == "always" or (self._settings.is_anthropic and knows_extras(model))

    def forgo_extras(self, model: str) -> None:
        """See `Provider`."""
        self._without_extras.add(model)

    async def close(self) -> None:
        """Let go of all connections."""
        self._closed = True
        if self._client is not None:
            await self._client.close()

    async def open_client(self) -> "AnthropicClient":
        if self._closed:
            raise ModelFailure("missing", "The daemon is about to end and asks no model any more.")
        if self._client is not None:
            return self._client
        if problem := self._settings.find_problem():
            raise ModelFailure("missing", problem)
        async with self._open_lock:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(
                    _create_client, self._settings, abandon_on_cancel=True, limiter=self._limiter
                )
        return self._client


class _StreamedRequest:
    """One request as an async context manager, written by hand: a generator-based one would delay each event."""

    def __init__(self, provider: AnthropicProvider, request: ModelRequest) -> None:
        self._provider = provider
        self._request = request

    async def __aenter__(self) -> AsyncIterator[RawEvent]:
        client = await self._provider.open_client()
        request = self._request
        parts = await read_in_thread(request.encode_parts) if request.is_long else request.encode_parts()
        self._response = await client.open_stream(parts, request.stored, streams=request.stream)
        self._events = self._response.iter_events()
        return self._events

    async def __aexit__(self, *_: object) -> None:
        await self._events.aclose()
        # Also where the request was interrupted.
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._response.close()


def _create_client(settings: AnthropicSettings) -> "AnthropicClient":
    # The HTTP client takes 0.1 s to import, and the SDK, where it is needed, 1 s: the daemon is ready without them.
    try:
        from ostler.server.models.anthropic.client import AnthropicClient  # noqa: PLC0415
    except ImportError as error:
        raise ModelFailure("missing", f"A package that requests need cannot be used: {error}.") from error
    return AnthropicClient(settings)
