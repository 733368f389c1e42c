"""Where a request goes: the parts of an address, as a request needs them."""

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self
from urllib.parse import quote, unquote, urljoin, urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/%:@!$&'+()*,;=?~-._"


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int
    target: str
    """The path and the query."""
    user: str | None = None
    password: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError for what is no address of a server."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"{parts.scheme or 'it'}:// is no address of a server")
        # A name in other letters is looked up, and named in the request, as the network knows it.
        host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        user = None if parts.username is None else unquote(parts.username)
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        return cls(parts.scheme, host, port, target, user, unquote(parts.password or ""))

    def join(self, location: str) -> "Address":
        """The address that a location means which was read at this one. Raises ValueError."""
        return Address.parse(urljoin(f"{self.origin}{self.target}", location))

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @cached_property
    def authority(self) -> str:
        """The host and the port, as `CONNECT` has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @cached_property
    def host_header(self) -> str:
        return self.authority.rpartition(":")[0] if self.port == _PORTS[self.scheme] else self.authority

    @cached_property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host_header}"

    def build_credentials(self) -> dict[str, str]:
        """The header for a proxy with the name and the password of its address, where it has them."""
        if self.user is None:
            return {}
        encoded = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"proxy-authorization": f"Basic {encoded}"}
