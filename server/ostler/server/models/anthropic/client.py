"""Requests to the Messages API. Imported in a thread, not at the daemon's start."""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ostler.server.models.anthropic.endpoint import find_endpoint
from ostler.server.models.anthropic.errors import FailureBuilder
from ostler.server.models.anthropic.provider import AnthropicSettings
from ostler.server.models.anthropic.stream import ResponseStream
from ostler.server.models.http.address import Address
from ostler.server.models.http.certificates import load_certificates
from ostler.server.models.http.client import HttpClient
from ostler.server.models.http.response import Response

_MAX_REDIRECTIONS: Final = 5
_PATH: Final = "/v1/messages"
_LIST_LIMIT: Final = 1000
"""Entries of a list: as many as the API gives at once."""
_HEADERS: Final = {
    "content-type": "application/json",
    "accept-encoding": "identity",  # a compressed stream comes in lumps
}
WaitStored = Callable[[], Awaitable[None]]
"""Waits until the disk has what is to be sent."""


class AnthropicClient:
    """Connections with our time limits.

    The SDK's way of sending is left out: it builds address, headers and options anew for each request, and looks for
    cookies, credentials and redirections in each answer, which takes half a millisecond, a part of it before the first
    word.
    """

    def __init__(self, settings: AnthropicSettings) -> None:
        for name in ("anthropic", "httpx2", "httpcore2"):
            # On lower levels they write whole requests and their headers into the log.
            logging.getLogger(name).setLevel(logging.WARNING)
        self._failures = FailureBuilder(settings)
        self._silence_seconds = settings.silence_seconds
        try:
            endpoint = find_endpoint(settings)
            self._address = Address.parse(f"{endpoint.base_url.rstrip('/')}{_PATH}")
            proxy = _find_proxy(self._address)
            encrypted = self._address.is_encrypted or (proxy is not None and proxy.is_encrypted)
            self._http = HttpClient(
                self._address,
                headers={**endpoint.headers, **_HEADERS},
                proxy=proxy,
                tls=load_certificates() if encrypted else None,
                connect_seconds=settings.connect_seconds,
            )
        except (ValueError, OSError) as error:
            raise self._failures.from_bad_settings(error) from error

    async def open_stream(
        self,
        parts: list[bytes],
        wait_stored: WaitStored | None = None,
        *,
        streams: bool = True,
        betas: Sequence[str] = (),
    ) -> ResponseStream:
        """Send a request, as soon as the disk has what it says; returns when the provider has accepted it.

        Where it does not ask for a stream, the silence until the answer is whole is none of the provider's faults: the
        caller limits its time.
        """
        try:
            response = await self._send(parts, wait_stored, self._silence_seconds if streams else None, betas)
        except (ValueError, RuntimeError, OSError) as error:
            raise self._failures.from_request_error(error) from error
        answer = ResponseStream(response, self._failures)
        await answer.check_response()
        return answer

    async def _send(
        self, parts: list[bytes], wait_stored: WaitStored | None, silence: float | None, betas: Sequence[str]
    ) -> Response:
        headers = {"anthropic-beta": ",".join(betas)} if betas else {}
        address, left = self._address, _MAX_REDIRECTIONS
        while True:
            response = await self._http.request(
                "POST", address, parts, silence=silence, ready=wait_stored, headers=headers
            )
            location = response.headers.get("location") if response.status in (307, 308) else None
            if location is None or not left:
                return response
            address, left = address.join(location), left - 1
            if address.origin != self._address.origin:
                return response  # the key is for nobody else
            response.close()

    async def fetch(self, name: str, most: int) -> bytes:
        """The short JSON document that stands beside the messages; no redirection is followed."""
        address = self._address.join(f"{name}?limit={_LIST_LIMIT}")
        try:
            response = await self._http.request("GET", address, silence=self._silence_seconds)
        except (ValueError, RuntimeError, OSError) as error:
            raise self._failures.from_request_error(error) from error
        return await ResponseStream(response, self._failures).read_document(most)

    async def close(self) -> None:
        await self._http.close()


def _find_proxy(address: Address) -> Address | None:
    """The proxy that the environment names for an address; looked up once: it may be slow."""
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # Imported here: elsewhere the system is asked, and it comes with a whole HTTP client (5 ms).
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    if proxy_bypass(address.host):
        return None
    proxies = getproxies()
    named = proxies.get(address.scheme) or proxies.get("all")
    if not named:
        return None
    return Address.parse(named if "://" in named else f"http://{named}")
