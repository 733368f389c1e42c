"""Requests to the Messages API. Imported in a thread, not at the daemon's start."""

import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from ostler.server.models.anthropic.endpoint import find_endpoint
from ostler.server.models.anthropic.errors import FailureBuilder
from ostler.server.models.anthropic.provider import AnthropicSettings
from ostler.server.models.anthropic.stream import ResponseStream

_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection is kept while tools run: a new one costs a handshake in each request."""
_MAX_CONNECTIONS: Final = 1000
_MAX_REDIRECTIONS: Final = 5
_PATH: Final = "/v1/messages"
_LIST_LIMIT: Final = 1000
"""Entries of a list: as many as the API gives at once."""
_LONG_BYTES: Final = 128 * 1024
_WRITE_BYTES: Final = 2 * 1024 * 1024
"""The most that is written at once: the connection copies what it cannot send right away."""
_HEADERS: Final = {
    "content-type": "application/json",
    "accept-encoding": "identity",  # a compressed stream comes in lumps
}
WaitStored = Callable[[], Awaitable[None]]
"""Waits until the disk has what is to be sent."""


class _RequestBody(aiohttp.Payload):
    """The body of a request. The headers are held back until its first part is there, and leave together with it."""

    def __init__(self, parts: list[bytes], wait_stored: WaitStored | None) -> None:
        super().__init__(parts, content_type=_HEADERS["content-type"])
        self._size = sum(map(len, parts))
        # A long one is written as it is: to put it together would take longer the longer the conversation is.
        self._parts = [b"".join(parts)] if self._size < _LONG_BYTES else parts
        self._wait_stored = wait_stored

    async def write(self, writer: AbstractStreamWriter) -> None:
        if self._wait_stored is not None:
            # Here, where all is ready, and not before: the two take about the same time.
            await self._wait_stored()
        for part in self._parts:
            for at in range(0, len(part), _WRITE_BYTES):
                await writer.write(memoryview(part)[at : at + _WRITE_BYTES] if len(part) > _WRITE_BYTES else part)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._parts).decode(encoding, errors)


class AnthropicClient:
    """Connections with our time limits.

    The SDK's way of sending is left out: it builds address, headers and options anew for each request, and looks for
    cookies, credentials and redirections in each answer, which takes half a millisecond, a part of it before the first
    word.
    """

    def __init__(self, settings: AnthropicSettings) -> None:
        for name in ("anthropic", "httpx2", "httpcore2", "aiohttp"):
            # On lower levels they write whole requests and their headers into the log.
            logging.getLogger(name).setLevel(logging.WARNING)
        self._failures = FailureBuilder(settings)
        self._timeouts, self._patient_timeouts = (
            aiohttp.ClientTimeout(
                total=None,
                connect=settings.silence_seconds,
                sock_connect=settings.connect_seconds,
                sock_read=silence,
            )
            for silence in (settings.silence_seconds, None)
        )
        try:
            endpoint = find_endpoint(settings)
            self._address = URL(f"{endpoint.base_url.rstrip('/')}{_PATH}")
            self._proxy, self._proxy_headers = _find_proxy(self._address)
            encrypted = "https" in (self._address.scheme, self._proxy and self._proxy.scheme)
            # To read all certificates takes 40 ms.
            self._ssl_context = _load_certificates() if encrypted else _trust_nobody()
        except (ValueError, OSError) as error:
            raise self._failures.from_bad_settings(error) from error
        # Where nothing is encrypted it is the proxy itself that reads the request.
        proxy_headers = self._proxy_headers if self._address.scheme == "http" else {}
        self._headers = {**endpoint.headers, **proxy_headers, **_HEADERS}

    # On the event loop, where the first request is sent from, and not before.

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        connections = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=self._ssl_context
        )
        return aiohttp.ClientSession(connector=connections, cookie_jar=aiohttp.DummyCookieJar())

    async def open_stream(
        self, parts: list[bytes], wait_stored: WaitStored | None = None, *, streams: bool = True
    ) -> ResponseStream:
        """Send a request, as soon as the disk has what it says; returns when the provider has accepted it.

        Where it does not ask for a stream, the silence until the answer is whole is none of the provider's faults: the
        caller limits its time.
        """
        try:
            response = await self._send(parts, wait_stored, self._timeouts if streams else self._patient_timeouts)
        except (aiohttp.ClientError, ValueError, RuntimeError, OSError) as error:
            raise self._failures.from_request_error(error) from error
        answer = ResponseStream(response, self._failures)
        await answer.check_response()
        return answer

    async def _send(
        self, parts: list[bytes], wait_stored: WaitStored | None, timeouts: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        address, left = self._address, _MAX_REDIRECTIONS
        while True:
            response = await self._session.post(
                address,
                data=_RequestBody(parts, wait_stored),
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                timeout=timeouts,
            )
            location = response.headers.get("location") if response.status in (307, 308) else None
            if location is None or not left:
                return response
            address, left = address.join(URL(location)), left - 1
            if address.origin() != self._address.origin():
                return response  # the key is for nobody else
            response.release()

    async def fetch(self, name: str, most: int) -> bytes:
        """The short JSON document that stands beside the messages; no redirection is followed."""
        address = (self._address.parent / name).with_query(limit=_LIST_LIMIT)
        try:
            response = await self._session.get(
                address,
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                timeout=self._timeouts,
            )
        except (aiohttp.ClientError, ValueError, RuntimeError, OSError) as error:
            raise self._failures.from_request_error(error) from error
        return await ResponseStream(response, self._failures).read_document(most)

    async def close(self) -> None:
        if "_session" in self.__dict__:
            await self._session.close()


def _load_certificates() -> ssl.SSLContext:
    # Imported here: only what is encrypted needs it.
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()


def _trust_nobody() -> ssl.SSLContext:
    """For connections that are not encrypted: an encrypted one would fail."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _find_proxy(address: URL) -> tuple[URL | None, dict[str, str]]:
    """The proxy that the environment names for an address, and the headers for it; looked up once: it may be slow."""
    host = address.host or ""
    if proxy_bypass(host):
        return None, {}
    proxies = getproxies()
    named = proxies.get(address.scheme) or proxies.get("all")
    if not named:
        return None, {}
    proxy = URL(named if "://" in named else f"http://{named}")
    if proxy.user is None:
        return proxy, {}
    credentials = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
    return proxy.with_user(None), {"proxy-authorization": credentials}
