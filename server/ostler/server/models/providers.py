"""Which provider answers for which model."""

from collections.abc import Mapping
from dataclasses import dataclass

from ostler.protocol.config import Model
from ostler.server import logs
from ostler.server.models.anthropic import AnthropicProvider, AnthropicSettings
from ostler.server.models.provider import ModelFailure, Provider
from ostler.server.models.rehearsal import RehearsalProvider

REHEARSAL = "rehearsal"


@dataclass(frozen=True, slots=True)
class Providers:
    anthropic: AnthropicProvider
    rehearsal: RehearsalProvider

    def provider(self, model: str) -> Provider:
        return self.rehearsal if model == REHEARSAL else self.anthropic

    async def warm_up(self) -> None:
        """Load what the first request would wait for."""
        try:
            await self.anthropic.warm_up()
        except ModelFailure as failure:
            logs.log.debug("provider_not_usable", provider="anthropic", reason=failure.message)

    async def close(self) -> None:
        await self.anthropic.close()


def make_providers(environ: Mapping[str, str], settings: Model) -> Providers:
    anthropic = AnthropicSettings.from_environment(
        environ, connect_seconds=settings.connect_seconds, silence_seconds=settings.silence_seconds
    )
    return Providers(AnthropicProvider(anthropic), RehearsalProvider())
