"""Where requests to the Messages API go, and with which headers."""

import ssl
from dataclasses import dataclass

from ostler.server.models.anthropic.provider import AnthropicSettings
from ostler.server.version import get_version

API_VERSION = "2026-10-21"
"""What the SDK sends, too: a test compares them, and fails when a newer SDK speaks another version."""
_ANTHROPIC_URL = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True)
class Endpoint:
    base_url: str
    headers: dict[str, str]


def find_endpoint(settings: AnthropicSettings) -> Endpoint:
    """The address and the headers of all requests.

    A key or a token needs no more than a header. Whoever has more to say (today: headers of the person's own) gets
    what the SDK makes of it, and waits for its import, which takes longer than the rest of a start.
    """
    return _ask_sdk(settings) if settings.needs_sdk else _make_endpoint(settings)


def _make_endpoint(settings: AnthropicSettings) -> Endpoint:
    headers = {
        "accept": "application/json",
        "user-agent": f"ostler/{get_version()}",
        "authorization": f"Bearer {settings.api_key or settings.auth_token}",
        "anthropic-version": API_VERSION,
    }
    return Endpoint(settings.base_url or _ANTHROPIC_URL, headers)


def _ask_sdk(settings: AnthropicSettings) -> Endpoint:
    import httpx2  # noqa: PLC0415 - only here, as the docstring above says
    from anthropic import AsyncAnthropic  # noqa: PLC0415

    try:
        sdk = AsyncAnthropic(
            api_key=settings.api_key,
            auth_token=settings.auth_token,
            base_url=settings.base_url,
            max_retries=0,
            open_telemetry=False,
            # It sends nothing, and reads no certificates for it.
            http_client=httpx2.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
        )
    except httpx2.InvalidURL as error:
        raise ValueError(str(error)) from error
    headers = {name.lower(): value for name, value in sdk.default_headers.items() if isinstance(value, str)}
    return Endpoint(str(sdk.base_url), headers)
