"""Addresses and headers: the same whether we make them or the SDK does, and the SDK's where only it knows."""

import subprocess
import sys
from dataclasses import replace

import pytest

from ostler.server.models.anthropic.endpoint import Endpoint, find_endpoint
from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from tests.server.models.provider_requests import KEY, collect_events, list_types
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio

SAID_OF_THE_MACHINE = ("user-agent", "x-stainless-")
"""The SDK tells its own name and what it runs on; we tell ours."""


def read_settings(**variables: str) -> AnthropicSettings:
    environment = {f"ANTHROPIC_{name}": value for name, value in variables.items()}
    return AnthropicSettings.from_environment(environment, connect_seconds=9, silence_seconds=9)


def list_meaning(endpoint: Endpoint) -> dict[str, str]:
    left_out = {"content-type"}  # set for each request
    return {
        name: value
        for name, value in endpoint.headers.items()
        if name not in left_out and not name.startswith(SAID_OF_THE_MACHINE)
    }


@pytest.mark.parametrize(
    "variables",
    [
        {"API_KEY": KEY},
        {"AUTH_TOKEN": "token-of-ours"},
        {"API_KEY": KEY, "AUTH_TOKEN": "token-of-ours"},
        {"BASE_URL": "http://127.0.0.1:8/models/"},
    ],
    ids="+".join,
)
def test_headers_and_address_mean_what_the_sdk_would_send(variables: dict[str, str]) -> None:
    settings = read_settings(**variables)
    ours, theirs = find_endpoint(settings), find_endpoint(replace(settings, needs_sdk=True))
    assert list_meaning(ours) == list_meaning(theirs)
    assert ours.base_url.rstrip("/") == theirs.base_url.rstrip("/")
    assert "anthropic-version" in ours.headers


async def test_headers_of_the_persons_own_are_sent_as_the_sdk_reads_them(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Stable: seven\nX-Gate: open")
    api.always(message(says("hi")))
    settings = read_settings(BASE_URL=api.url, API_KEY=KEY, CUSTOM_HEADERS="X-Stable: seven\nX-Gate: open")
    assert settings.needs_sdk
    provider = AnthropicProvider(settings)
    assert list_types(await collect_events(provider))[-1] == "message_stop"
    await provider.close()
    headers = api.requests[0].headers
    assert (headers["x-stable"], headers["x-gate"], headers["authorization"]) == ("seven", "open", f"Bearer {KEY}")


def test_a_plain_key_needs_no_sdk() -> None:
    code = (
        "import sys; from ostler.server.models.anthropic.provider import AnthropicSettings as S\n"
        "from ostler.server.models.anthropic.client import AnthropicClient\n"
        "AnthropicClient(S.from_environment({'ANTHROPIC_API_KEY': 'k', 'ANTHROPIC_BASE_URL': 'http://127.0.0.1:8'},"
        " connect_seconds=1, silence_seconds=1))\n"
        "print([name for name in ('anthropic', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
