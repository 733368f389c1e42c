"""Which provider answers for which model."""

import contextlib
import gc
from collections.abc import Mapping
from typing import Final

import anyio.to_thread

from ostler.protocol.config import Model
from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from ostler.server.models.provider import ModelFailure, Provider

REHEARSAL: Final = "rehearsal"


class Providers:
    def __init__(self, anthropic: AnthropicProvider) -> None:
        self._anthropic = anthropic
        self._rehearsal: Provider | None = None

    def get_provider(self, model: str) -> Provider:
        if model != REHEARSAL:
            return self._anthropic
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
                    await self._anthropic.warm_up()
        finally:
            # Garbage was not looked for since the start. What was loaded stays for good: a collection that went through
            # all its classes would block the event loop.
            gc.freeze()
            gc.enable()

    async def close(self) -> None:
        await self._anthropic.close()


def make_providers(environ: Mapping[str, str], settings: Model) -> Providers:
    anthropic = AnthropicSettings.from_environment(
        environ,
        connect_seconds=settings.connect_seconds,
        silence_seconds=settings.silence_seconds,
        tool_extras=settings.tool_extras,
    )
    return Providers(AnthropicProvider(anthropic))


def _load_rehearsal() -> Provider:
    # Imported here: most daemons have a real model and never need this one.
    from ostler.server.models.rehearsal import RehearsalProvider  # noqa: PLC0415

    return RehearsalProvider()
