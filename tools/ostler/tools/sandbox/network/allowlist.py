"""Which hosts and which addresses the proxy lets a sandboxed command reach."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from ostler.protocol.patterns import compile_later

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME: Final = compile_later(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Further ways to write an IPv4 address that a router on the way unpacks.
_TUNNELS: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")))


class HostAllowlist:
    """The allowed names: exact, `*.name` for all below a name, and addresses written out."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._exact: set[str] = set()
        self._wildcards: set[str] = set()
        for host in allowed:
            wanted = self._wildcards if host.startswith("*.") else self._exact
            wanted.add(_parse_host(host.removeprefix("*.")))

    def allows(self, host: str) -> bool:
        name = normalize_host(host)
        if name is None:
            return False
        parts = name.split(".")
        above = {".".join(parts[place:]) for place in range(1, len(parts))}
        return name in self._exact or (parse_address(name) is None and not above.isdisjoint(self._wildcards))


def _parse_host(host: str) -> str:
    name = normalize_host(host)
    if name is None:
        raise ValueError(f"{host!r} is not the name of a host: write it like 'pypi.org', '*.pypi.org' or an address.")
    return name


def normalize_host(host: str) -> str | None:
    """One spelling for each host; null for what is no name, other alphabets included."""
    address = parse_address(host.removeprefix("[").removesuffix("]"))
    if address is not None:
        return str(address)
    name = host.lower().removesuffix(".")
    return name if host.isascii() and _NAME.fullmatch(name) else None


def parse_address(host: str) -> Address | None:
    """Only the usual spelling: `127.1` and `0x7f000001` are names, and nobody allowed them."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return None if getattr(address, "scope_id", None) else address


def is_public(address: Address) -> bool:
    """Whether it belongs to the internet at large, however it is wrapped."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        if any(address in tunnel for tunnel in _TUNNELS):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)
