"""Which addresses of the web may be fetched: the one spelling of an address that we read, and which hosts are public.

An address is taken apart here once, and what is fetched is put together again of the parts: two parsers that
disagree about the host would make every check void.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import quote, urljoin

from ostler.protocol.patterns import compile_later

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
Scheme = Literal["http", "https"]

MAX_URL_CHARS: Final = 2_000
"""Longer ones are hardly addresses, and carry much away."""
_MAX_HOST_CHARS: Final = 253
_MAX_PORT: Final = 65_535
_LABEL: Final = compile_later(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = compile_later(r"[0-9]+|0x[0-9a-f]*")
"""A last label like this makes a host an IPv4 address, in spellings that programs read in different ways."""
_UNSAFE: Final = compile_later(r"[\x00-\x20\x7f\\]")
_IN_PATH: Final = "/:@!$&'(+)*,;=~%-._"
_IN_QUERY: Final = _IN_PATH + '?[]{}|^`"'
_NOT_PUBLIC: Final[tuple[IpNetwork, ...]] = tuple(
    map(
        ip_network,
        (
            # What the standard library takes for public, and is not: protocol assignments (a cloud's metadata among
            # them), old relays, a cloud's own service for its machines, and Teredo.
            "192.0.0.0/24",
            "192.88.99.0/24",
            "168.63.129.16/32",
            "2001::/32",
            "64:ff9b:1::/48",
            "100::/64",
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_COMPATIBLE: Final = IPv6Network("::/96")
_LOW_32: Final = 0xFFFF_FFFF


class BadUrl(ValueError):
    """It is no address that can be fetched; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Url:
    """An address of the web, taken apart."""

    scheme: Scheme
    host: str
    """In lower case and ASCII; an IPv6 address without its brackets."""
    port: int | None
    """Where the address names one."""
    target: str
    """Path and query."""

    @property
    def literal(self) -> IpAddress | None:
        """The host, where it is an IP address and no name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def rule_host(self) -> str:
        """The host as rules spell it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        port = f":{self.port}" if self.port is not None else ""
        return f"{self.scheme}://{self.rule_host}{port}{self.target}"


def parse_url(text: str) -> Url:
    """Takes an address apart; `http` becomes `https` where neither a port nor an IP address says that it is meant."""
    text = text.strip()
    if len(text) > MAX_URL_CHARS:
        raise BadUrl(f"The address has {len(text)} characters; at most {MAX_URL_CHARS} are fetched.")
    if _UNSAFE.search(text):
        raise BadUrl(f"{text[:200]!r} has a blank, a backslash or a control character in it, which no address has.")
    scheme, colon, rest = text.partition("://")
    if not colon:
        raise BadUrl(f"{text[:200]!r} is no whole address: begin it with https://.")
    if scheme.lower() not in {"http", "https"}:
        raise BadUrl(f"Only http and https can be fetched, not {scheme[:20]!r}.")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise BadUrl("The address has a name or password in it, which is not sent.")
    host, port = _split_port(authority)
    url = Url(_find_scheme(scheme.lower()), _normalize_host(host), port, _quote_target(rest[len(authority) :]))
    return replace(url, scheme="https") if url.port is None and url.literal is None else url


def resolve_redirect(url: Url, location: str) -> Url:
    """The address that a redirect leads to. Raises BadUrl."""
    try:
        return parse_url(urljoin(str(url), location.strip()))
    except ValueError as error:
        raise BadUrl(f"{url} redirects to {location[:200]!r}, which cannot be fetched: {error}") from None


def is_public(address: IpAddress) -> bool:
    """Whether an address is one of the public internet, also by the IPv4 address that stands in an IPv6 one."""
    inner = _find_inner(address)
    if inner is not None:
        return is_public(inner)
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """Which addresses may be dialled beside the public ones."""

    private: tuple[IpNetwork, ...] = ()
    """What the configuration opens, by whatever name."""
    named: frozenset[IpAddress] = frozenset()
    """What allow rules name. A name that leads there opens nothing: whoever owns it could point it anywhere."""

    def may_dial(self, address: IpAddress, url: Url) -> bool:
        plain = getattr(address, "ipv4_mapped", None) or address
        if is_public(address) or any(plain in each for each in self.private if each.version == plain.version):
            return True
        return url.literal == address and plain in self.named

    def explain(self, address: IpAddress, url: Url) -> str:
        """Why it was not dialled, and what would open it."""
        where = f"{url.host} is" if url.literal is not None else f"{url.host} leads to {address}, which is"
        words = f"{where} not an address of the public internet, and ostler did not connect to it."
        return f'{words} Whoever runs ostler may open it with [web] allow_private = ["{address}"] in config.toml.'


def parse_networks(texts: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Addresses and networks as the configuration has them. Raises ValueError."""
    return tuple(ip_network(text, strict=False) for text in texts)


def _find_scheme(scheme: str) -> Scheme:
    return "http" if scheme == "http" else "https"


def _split_port(authority: str) -> tuple[str, int | None]:
    if authority.startswith("["):
        host, closed, rest = authority[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadUrl(f"{authority[:200]!r} is no host.")
        return f"[{host}]", _parse_port(rest[1:])
    host, _, port = authority.partition(":")
    return host, _parse_port(port)


def _parse_port(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= _MAX_PORT:
        raise BadUrl(f"{text[:20]!r} is no port.")
    return int(text)


def _normalize_host(host: str) -> str:
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1].partition("%")[0]))
        except ValueError:
            raise BadUrl(f"{host[:200]!r} is no IPv6 address.") from None
    name = _encode_name(host).removesuffix(".")
    if not name or len(name) > _MAX_HOST_CHARS or not all(map(_LABEL.fullmatch, name.split("."))):
        raise BadUrl(f"{host[:200]!r} is no host.")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise BadUrl(f"{host[:200]!r} is no host: write an IPv4 address as four decimal numbers.") from None
    return name


def _encode_name(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadUrl(f"{host[:200]!r} is no host.") from None


def _quote_target(rest: str) -> str:
    path, mark, query = rest.partition("#")[0].partition("?")
    quoted = quote(path, safe=_IN_PATH) or "/"
    return f"{quoted}?{quote(query, safe=_IN_QUERY)}" if mark else quoted


def _find_inner(address: IpAddress) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIX_TO_FOUR:
        return IPv4Address(int(address) >> 80 & _LOW_32)
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & _LOW_32)
    return None
