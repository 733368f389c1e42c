"""Connections that reach public addresses only: a name is resolved here, checked, and what was checked is dialled.

The check stands below the HTTP client, so that it holds for each redirect and for whatever a name says the second time.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import httpcore2

from ostler.tools.threads import read_in_thread
from ostler.tools.web.page import PageUnavailable
from ostler.tools.web.url_policy import AllowedAddresses, IpAddress, Url

_RESOLVE_SECONDS: Final = 10.0
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
"""Of the kinds of proxies that there may be."""
Resolve = Callable[[str, int], Awaitable[Sequence[IpAddress]]]


async def resolve_host(host: str, port: int) -> Sequence[IpAddress]:
    """All addresses of a host. Raises OSError where it has none."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_RESOLVE_SECONDS):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found))


async def open_pool(
    url: Url, allowed: AllowedAddresses, resolve: Resolve = resolve_host
) -> httpcore2.AsyncConnectionPool:
    """Connections for one address, through the proxy that the environment names for it.

    Raises PageUnavailable; so do the pool's connections.
    """
    context = await read_in_thread(_load_certificates)
    proxy = _find_proxy(url)
    if proxy is None:
        return httpcore2.AsyncConnectionPool(context, network_backend=CheckedDialler(url, allowed, resolve))
    await _check_before_proxy(url, allowed, resolve)
    return httpcore2.AsyncHTTPProxy(
        f"{proxy.scheme}://{proxy.hostname}:{proxy.port or _DEFAULT_PORTS[proxy.scheme]}",
        proxy_auth=(unquote(proxy.username), unquote(proxy.password or "")) if proxy.username else None,
        ssl_context=context,
    )


class CheckedDialler(httpcore2.AsyncNetworkBackend):
    """Dials only what is allowed."""

    def __init__(self, url: Url, allowed: AllowedAddresses, resolve: Resolve) -> None:
        self._url = url
        self._allowed = allowed
        self._resolve = resolve
        self._dialler: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the contract of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        last: Exception | None = None
        for address in await _resolve_checked(self._url, port, self._allowed, self._resolve):
            try:
                stream: httpcore2.AsyncNetworkStream = await self._dialler.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
            else:
                return stream
        raise last or httpcore2.ConnectError(f"{host} has no address.")


async def _resolve_checked(url: Url, port: int, allowed: AllowedAddresses, resolve: Resolve) -> Sequence[IpAddress]:
    literal = url.literal
    try:
        found = [literal] if literal is not None else await resolve(url.host, port)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{url.host} has no address: {error}") from error
    # One that is not public makes a name suspect as a whole: it may be meant to be tried a second time.
    for address in found:
        if not allowed.may_dial(address, url):
            raise PageUnavailable(allowed.explain(address, url))
    return found


async def _check_before_proxy(url: Url, allowed: AllowedAddresses, resolve: Resolve) -> None:
    """The proxy resolves the name. What we can know of it we check; often only the proxy can resolve it."""
    with contextlib.suppress(httpcore2.ConnectError):
        await _resolve_checked(url, url.port or _DEFAULT_PORTS[url.scheme], allowed, resolve)


def _find_proxy(url: Url) -> SplitResult | None:
    """The proxy that the daemon's environment names for an address. Raises PageUnavailable."""
    proxies = getproxies_environment()
    host = url.rule_host if url.port is None else f"{url.rule_host}:{url.port}"
    if not proxies or proxy_bypass(host, proxies):
        return None
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named:
        return None
    with contextlib.suppress(ValueError):
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        if proxy.scheme in _DEFAULT_PORTS and proxy.hostname and proxy.port != 0:
            return proxy
    # Without its text, which may hold a password.
    raise PageUnavailable("The environment names a proxy that is no http:// or https:// address.")


@cache
def _load_certificates() -> ssl.SSLContext:
    """The system's certificates, or those that SSL_CERT_FILE names; loaded once."""
    return ssl.create_default_context()
