"""Requests through the provider, for its tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import orjson
import pytest

from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from ostler.server.models.provider import ModelFailure, ModelRequest, RawEvent

KEY: Final = "sk-secret-key-of-ours"


def make_request(text: str = "hello") -> ModelRequest:
    message = orjson.dumps({"role": "user", "content": [{"type": "text", "text": text}]})
    return ModelRequest(model="m", max_tokens=10, system=b"[]", tools=b"[]", messages=[message])


@asynccontextmanager
async def open_provider(
    url: str, *, key: str | None = KEY, connect_seconds: float = 10, silence_seconds: float = 10
) -> AsyncIterator[AnthropicProvider]:
    environment = {"ANTHROPIC_BASE_URL": url, **({"ANTHROPIC_API_KEY": key} if key else {})}
    settings = AnthropicSettings.from_environment(
        environment, connect_seconds=connect_seconds, silence_seconds=silence_seconds
    )
    provider = AnthropicProvider(settings)
    try:
        yield provider
    finally:
        await provider.close()


async def collect_events(provider: AnthropicProvider, text: str = "hello") -> list[RawEvent]:
    async with provider.stream(make_request(text)) as events:
        return [event async for event in events]


async def collect_failure(provider: AnthropicProvider) -> tuple[ModelFailure, list[RawEvent]]:
    """The failure, and the events that came before it."""
    seen: list[RawEvent] = []
    try:
        async with provider.stream(make_request()) as events:
            async for event in events:
                seen.append(event)
    except ModelFailure as failure:
        return failure, seen
    pytest.fail(f"it did not fail: {seen}")


def list_types(events: Sequence[RawEvent]) -> list[str]:
    return [event["type"] for event in events]
