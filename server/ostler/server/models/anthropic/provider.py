"""The Messages API: Anthropic's own, or any server that speaks it (`ANTHROPIC_BASE_URL`)."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ostler.server.models.model_list import MAX_LIST_BYTES, OfferedModel, list_known_models, parse_offered
from ostler.server.models.pricing import knows_compaction, knows_extras, knows_search
from ostler.server.models.provider import ModelFailure, ModelRequest, RawEvent
from ostler.tools.spelling import suggest_spelling
from ostler.tools.threads import read_in_thread

if TYPE_CHECKING:
    from ostler.server.models.anthropic.client import AnthropicClient

_PLACEHOLDER_KEY: Final = "none"
"""For servers that ask for no key; some want a header all the same."""
_ANTHROPIC_HOST: Final = "api.anthropic.com"
_CLOSE_SECONDS: Final = 2
_LIST_PATH: Final = "models"
_LIST_SECONDS: Final = 5
_LIST_KEPT_SECONDS: Final = 60
_NAMED_MODELS: Final = 12


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """The address, the key and the time limits of requests."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    connect_seconds: float = 20
    silence_seconds: float = 120
    tool_extras: Literal["auto", "always", "never"] = "auto"
    compaction: Literal["auto", "always", "never"] = "auto"
    key_variable: str | None = None
    """The variable that the key or token is from; null where it is a kept one, or none."""
    fetch_key: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Fetches a key that is in the system's keyring; blocks. Raises ModelFailure."""
    problem: str | None = None
    """Why a kept key cannot be used."""
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
        compaction: Literal["auto", "always", "never"] = "auto",
    ) -> Self:
        """From the same variables that the SDK reads. The key counts where both key and token are set."""
        base_url, key, token = (
            environment.get(f"ANTHROPIC_{name}", "").strip() or None for name in ("BASE_URL", "API_KEY", "AUTH_TOKEN")
        )
        variable = "ANTHROPIC_API_KEY" if key else "ANTHROPIC_AUTH_TOKEN" if token else None
        if key is None and token is None and base_url is not None:
            key = _PLACEHOLDER_KEY
        needs_sdk = "ANTHROPIC_CUSTOM_HEADERS" in environment
        return cls(
            base_url,
            key,
            None if key else token,
            connect_seconds,
            silence_seconds,
            tool_extras,
            compaction,
            variable,
            needs_sdk=needs_sdk,
        )

    def find_problem(self) -> str | None:
        """Why no request can be sent with these settings; None where they are fine."""
        if self.problem is not None:
            return self.problem
        secret = self.api_key or self.auth_token
        if secret is None and self.fetch_key is None:
            return (
                "There is no key: `ostler auth login` keeps one. Or start the daemon anew with ANTHROPIC_API_KEY set, "
                "or with ANTHROPIC_BASE_URL for a local model."
            )
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            name = self.key_variable or "ANTHROPIC_API_KEY"
            return f"The key in {name} has characters that no key has: set it again, and start the daemon anew."
        if self.base_url is not None and not _is_address(self.base_url):
            return f"ANTHROPIC_BASE_URL is no address of a server: {self.base_url!r}. Example: http://127.0.0.1:11434"
        return None

    def describe_key(self) -> str:
        """Which key was sent, and how another one comes in its place."""
        if self.key_variable is not None:
            return (
                f"The key is that of {self.key_variable}, which the daemon was started with: set the right one, and "
                "start the daemon anew (`ostler stop`, `ostler start`)."
            )
        if self.api_key == _PLACEHOLDER_KEY:
            return "No key was sent: `ostler auth login` keeps one, and the next turn uses it."
        return "The key is the one that was kept: `ostler auth login` replaces it, and the next turn uses the new one."

    @property
    def place(self) -> str:
        """The address for people, without what may be secret in it, and what it is from."""
        if self.base_url is None:
            return f"https://{_ANTHROPIC_HOST}"
        parts = urlsplit(self.base_url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path} (ANTHROPIC_BASE_URL)"

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
        self.settings = settings
        self._client: AnthropicClient | None = None
        self._closed = False
        self._without_extras: set[str] = set()
        """Models that have refused them."""
        self._without_compaction: set[str] = set()
        self._open_lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)
        self._list_lock = anyio.Lock()
        self._listed: tuple[float, Sequence[OfferedModel] | ModelFailure] | None = None
        """When the provider was last asked for its models, and what it said."""

    async def warm_up(self) -> None:
        """Import the HTTP client in a thread, so that the first request need not wait for it."""
        await self.open_client()

    def stream(self, request: ModelRequest) -> "_StreamedRequest":
        """Send the request; see `Provider`."""
        return _StreamedRequest(self, request)

    def takes_extras(self, model: str) -> bool:
        """See `Provider`."""
        if self.settings.tool_extras == "never" or model in self._without_extras:
            return False
        return self.settings.tool_extras == "always" or (self.settings.is_anthropic and knows_extras(model))

    def forgo_extras(self, model: str) -> None:
        """See `Provider`."""
        self._without_extras.add(model)

    def compacts(self, model: str) -> bool:
        """See `Provider`."""
        if self.settings.compaction == "never" or model in self._without_compaction:
            return False
        return self.settings.compaction == "always" or (self.settings.is_anthropic and knows_compaction(model))

    def searches(self, model: str) -> bool:
        """See `Provider`."""
        return self.settings.is_anthropic and self.settings.find_problem() is None and knows_search(model)

    def forgo_compaction(self, model: str) -> None:
        """See `Provider`."""
        self._without_compaction.add(model)

    async def list_models(self) -> Sequence[OfferedModel]:
        """The models that the provider offers, as it said at most a minute ago. Raises ModelFailure."""
        async with self._list_lock:
            if self._listed is None or self._listed[0] + _LIST_KEPT_SECONDS < time.monotonic():
                self._listed = time.monotonic(), await self._fetch_models()
        found = self._listed[1]
        if isinstance(found, ModelFailure):
            raise found
        return found

    async def _fetch_models(self) -> Sequence[OfferedModel] | ModelFailure:
        try:
            client = await self.open_client()
            with anyio.fail_after(_LIST_SECONDS):
                return parse_offered(await client.fetch(_LIST_PATH, MAX_LIST_BYTES))
        except ModelFailure as failure:
            return failure
        except TimeoutError:
            return ModelFailure("timeout", f"The provider at {self.settings.place} said nothing for {_LIST_SECONDS} s.")
        except ValueError as error:
            return ModelFailure("garbage", f"The list of models of {self.settings.place} cannot be read: {error}.")

    async def name_models(self, wanted: str) -> str:
        """Which models there are, the closest first, for who asked for one that is none."""
        try:
            names = [model.id for model in await self.list_models()]
        except ModelFailure:
            names = [model.id for model in list_known_models()]
        closest = suggest_spelling(wanted, names).lstrip("; ").capitalize()
        shown = ", ".join(names[:_NAMED_MODELS])
        more = f" and {len(names) - _NAMED_MODELS} more" if len(names) > _NAMED_MODELS else ""
        asked = f"{closest} " if closest != "." else ""
        return f"{asked}Known are {shown}{more}; `ostler models` lists them."

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
        if problem := self.settings.find_problem():
            raise ModelFailure("missing", problem)
        async with self._open_lock:
            if self._client is None:
                self._client = await anyio.to_thread.run_sync(
                    _create_client, self.settings, abandon_on_cancel=True, limiter=self._limiter
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
        try:
            self._response = await client.open_stream(
                parts, request.stored, streams=request.stream, betas=request.betas
            )
        except ModelFailure as failure:
            if failure.kind == "unknown_model":
                failure.message = f"{failure.message}. {await self._provider.name_models(request.model)}"
            raise
        self._events = self._response.iter_events()
        return self._events

    async def __aexit__(self, *_: object) -> None:
        await self._events.aclose()
        # Also where the request was interrupted.
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._response.close()


def _create_client(settings: AnthropicSettings) -> "AnthropicClient":
    # The SDK, where it is needed, takes 1 s to import, and certificates 40 ms: the daemon is ready without them.
    try:
        from ostler.server.models.anthropic.client import AnthropicClient  # noqa: PLC0415
    except ImportError as error:
        raise ModelFailure("missing", f"A package that requests need cannot be used: {error}.") from error
    if settings.fetch_key is not None:
        settings = replace(settings, api_key=settings.fetch_key())
    return AnthropicClient(settings)
