"""Which provider answers for which model."""

import contextlib
import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import anyio.to_thread

from ostler.protocol.config import Model
from ostler.protocol.credentials import DEFAULT_PROVIDER, BadCredentials
from ostler.server.config.credentials import Credentials, KeyringFailed
from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from ostler.server.models.provider import ModelFailure, Provider

REHEARSAL: Final = "rehearsal"


class Providers:
    """One provider of each kind; that of real models is made anew when its key is another one."""

    def __init__(self, read_settings: Callable[[], AnthropicSettings], version: Callable[[], int]) -> None:
        self._read_settings = read_settings
        self._version = version
        """Another number whenever the settings may have changed."""
        self._made_for = version()
        self._anthropic = AnthropicProvider(read_settings())
        self._replaced: list[AnthropicProvider] = []
        """Turns may still be at work with them; they are closed with the daemon."""
        self._rehearsal: Provider | None = None

    @property
    def anthropic(self) -> AnthropicProvider:
        if self._made_for != (version := self._version()):
            self._made_for = version
            settings = self._read_settings()
            # What is in the keyring is not known here: it may be another key.
            if settings != self._anthropic.settings or settings.fetch_key is not None:
                self._replaced.append(self._anthropic)
                self._anthropic = AnthropicProvider(settings)
        return self._anthropic

    def get_provider(self, model: str) -> Provider:
        if model != REHEARSAL:
            return self.anthropic
        if self._rehearsal is None:
            self._rehearsal = _load_rehearsal()
        return self._rehearsal

    async def warm_up(self, model: str) -> None:
        """Load what the first request to this model would wait for; other models are loaded when they are asked."""
        try:
            if model == REHEARSAL:
                self._rehearsal = await anyio.to_thread.run_sync(_load_rehearsal)
            else:
                # Without a key there is nothing to load; the first request that needs it says so.
                with contextlib.suppress(ModelFailure):
                    await self.anthropic.warm_up()
        finally:
            # Garbage was not looked for since the start. What was loaded stays for good: a collection that went through
            # all its classes would block the event loop.
            gc.freeze()
            gc.enable()

    async def close(self) -> None:
        for provider in (*self._replaced, self._anthropic):
            await provider.close()


def make_providers(environ: Mapping[str, str], settings: Model, credentials: Credentials) -> Providers:
    anthropic = AnthropicSettings.from_environment(
        environ,
        connect_seconds=settings.connect_seconds,
        silence_seconds=settings.silence_seconds,
        tool_extras=settings.tool_extras,
        compaction=settings.compaction,
    )
    return Providers(lambda: _add_kept_key(anthropic, credentials), lambda: credentials.version)


def _add_kept_key(settings: AnthropicSettings, credentials: Credentials) -> AnthropicSettings:
    """The environment's key wins over one that is kept."""
    if settings.key_variable is not None:
        return settings
    try:
        stored = credentials.find_stored(DEFAULT_PROVIDER)
    except BadCredentials as error:
        return replace(settings, problem=f"The key that was kept cannot be used. {error}")
    if stored is None:
        return settings
    if stored.api_key is not None:
        return replace(settings, api_key=stored.api_key)

    def fetch() -> str:
        try:
            return credentials.fetch_from_keyring(DEFAULT_PROVIDER)
        except KeyringFailed as error:
            raise ModelFailure("missing", str(error)) from None

    return replace(settings, api_key=None, fetch_key=fetch)


def _load_rehearsal() -> Provider:
    # Imported here: most daemons have a real model and never need this one.
    from ostler.server.models.rehearsal import RehearsalProvider  # noqa: PLC0415

    return RehearsalProvider()
