"""HTTP to one address: the client to use, and what its failures mean."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from pydantic_core import from_json

from ostler.clients.sdk.address import Address, build_access_error
from ostler.clients.sdk.errors import ClientError, DaemonUnreachable, UnexpectedAnswer
from ostler.protocol.errors import ProtocolError, TooLarge, error_of

CONNECT_SECONDS: Final = 5.0


def open_http(address: Address, *, read_seconds: float) -> httpx2.AsyncClient:
    """A client for this address and no other: nothing of the environment sends the token elsewhere."""
    here = address.socket is not None or _is_loopback(address.url)
    encrypted = address.socket is None and address.url.startswith("https:")
    return httpx2.AsyncClient(
        base_url="http://localhost" if address.socket else address.url,
        headers={"Authorization": f"Bearer {address.token}"} if address.token else {},
        # A loopback address is never behind a proxy, whatever HTTP_PROXY says.
        transport=httpx2.AsyncHTTPTransport(uds=address.socket, verify=encrypted) if here else None,
        timeout=build_timeout(read_seconds),
        trust_env=not here,
    )


def build_timeout(read_seconds: float) -> httpx2.Timeout:
    """Whoever is there accepts at once, so connecting has a short timeout; an answer takes as long as its question."""
    return httpx2.Timeout(CONNECT_SECONDS, read=read_seconds, write=read_seconds, pool=read_seconds)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def map_http_errors(address: Address) -> Iterator[None]:
    """Raise every way in which a connection can fail as `DaemonUnreachable`."""
    try:
        yield
    except httpx2.TimeoutException as late:
        raise DaemonUnreachable(f"The daemon at {address} did not answer in time. See `ostler status`.") from late
    except (httpx2.HTTPError, httpx2.InvalidURL) as broken:
        why = str(broken) or type(broken).__name__
        raise DaemonUnreachable(f"The daemon at {address} cannot be reached: {why}. See `ostler doctor`.") from broken


def build_http_error(address: Address, status: int, body: bytes) -> ClientError | ProtocolError:
    """The error that an answer other than 200 stands for."""
    if status in {401, 403}:
        return build_access_error(address)
    if status == 413:
        return TooLarge("What was sent is larger than the daemon takes in one call.")
    error = _parse_error(body)
    if error is not None:
        return error
    words = body[:200].decode("utf-8", "replace").strip()
    return UnexpectedAnswer(f"The daemon at {address} answered HTTP {status}: {words or 'nothing more'}.")


def _parse_error(body: bytes) -> ProtocolError | None:
    try:
        answer: Any = from_json(body)
        error = answer["error"]
        return error_of(int(error["code"]), str(error["message"]), error.get("data"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
