"""The Messages API: Anthropic's own, or any server that speaks it (`ANTHROPIC_BASE_URL`)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ostler.server.models.provider import ModelFailure, ModelRequest, RawEvent

if TYPE_CHECKING:
    from ostler.server.models.anthropic_client import AnthropicClient

_PLACEHOLDER_KEY: Final = "none"
"""For servers that ask for no key; the SDK sends nothing without one."""
_CLOSE_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """Whom to ask, with which key, and how patiently."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    connect_seconds: float = 20
    silence_seconds: float = 120

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, connect_seconds: float, silence_seconds: float
    ) -> Self:
        """As the variables say that the SDK reads, too. The key counts where both key and token are set."""
        base_url, key, token = (
            environment.get(f"ANTHROPIC_{name}", "").strip() or None for name in ("BASE_URL", "API_KEY", "AUTH_TOKEN")
        )
        if key is None and token is None and base_url is not None:
            key = _PLACEHOLDER_KEY
        return cls(base_url, key, None if key else token, connect_seconds, silence_seconds)

    def problem(self) -> str | None:
        """Why nobody can be asked with these settings, if that is so."""
        secret = self.api_key or self.auth_token
        if secret is None:
            return "No key is set: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a local model."
        if not (secret.isascii() and secret.isprintable()):
            return "The key has characters that no key has: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN again."
        if self.base_url is not None and not _is_address(self.base_url):
            return f"ANTHROPIC_BASE_URL is no address of a server: {self.base_url!r}. Example: http://127.0.0.1:11434"
        return None


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
        self._opening = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)

    async def warm_up(self) -> None:
        """Import the SDK in a thread, so that the first request need not wait for it."""
        await self._opened()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[RawEvent]]:
        """Send the request; see `Provider`."""
        client = await self._opened()
        answer = await client.ask(request.parts(), request.stored)
        try:
            async with aclosing(answer.events()) as events:
                yield events
        finally:
            # A request that was interrupted is let go all the same.
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await answer.close()

    async def close(self) -> None:
        """Let go of all connections."""
        self._closed = True
        if self._client is not None:
            await self._client.close()

    async def _opened(self) -> "AnthropicClient":
        if self._closed:
            raise ModelFailure("missing", "The daemon is about to end and asks no model any more.")
        if self._client is not None:
            return self._client
        if problem := self._settings.problem():
            raise ModelFailure("missing", problem)
        async with self._opening:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(
                    _open, self._settings, abandon_on_cancel=True, limiter=self._limiter
                )
        return self._client


def _open(settings: AnthropicSettings) -> "AnthropicClient":
    # The SDK takes 1.8 s to import and the certificates 50 ms to load: the daemon is ready without them.
    try:
        from ostler.server.models.anthropic_client import AnthropicClient  # noqa: PLC0415
    except ImportError as error:
        raise ModelFailure("missing", f"The package `anthropic` cannot be used: {error}.") from error
    return AnthropicClient(settings)
