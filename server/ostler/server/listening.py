"""The sockets that the daemon listens on."""

import errno
import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from ostler.protocol.config import Listen
from ostler.server.configuration import BadConfig


@dataclass(frozen=True, slots=True)
class Listening:
    tcp: socket.socket
    unix: socket.socket
    path: Path
    url: str
    port: int
    moved: bool
    """The port that was asked for is taken, and this is another one."""

    @property
    def sockets(self) -> list[socket.socket]:
        return [self.tcp, self.unix]


def open_sockets(listen: Listen, socket_path: Path) -> Listening:
    address = _address(listen)
    tcp, moved = _bind_tcp(address, listen.port)
    port = int(tcp.getsockname()[1])
    try:
        unix = _bind_unix(socket_path)
    except OSError as error:
        tcp.close()
        raise BadConfig(f"{socket_path} cannot be used as a socket: {error.strerror}.") from None
    shown = f"[{address}]" if address.version == 6 else str(address)
    return Listening(tcp, unix, socket_path, f"http://{shown}:{port}", port, moved)


def _address(listen: Listen) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address("127.0.0.1" if listen.host == "localhost" else listen.host.strip("[]"))
    except ValueError:
        raise BadConfig(f"{listen.host!r} is no IP address to listen on.") from None
    if not address.is_loopback and not listen.behind_proxy:
        raise BadConfig(
            f"{address} can be reached from other machines. Put a reverse proxy with TLS in front and say so with "
            "`[listen] behind_proxy = true` in config.toml, or listen on 127.0.0.1."
        )
    return address


def _bind_tcp(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> tuple[socket.socket, bool]:
    try:
        return _listening(address, port), False
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            raise BadConfig(f"{address} port {port} cannot be listened on: {error.strerror}.") from None
    return _listening(address, 0), True


def _listening(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> socket.socket:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    # Named, because asyncio switches Nagle's algorithm off only for sockets that say they are TCP: without it an
    # answer on a kept connection waits 40 ms for an acknowledgement that the client delays.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((str(address), port))
        # Listening at once: two daemons that bind at the same moment must not both believe that they have the port.
        found.listen(2048)
    except BaseException:
        found.close()
        raise
    return found


def _bind_unix(path: Path) -> socket.socket:
    # The home is ours alone by now, so whatever lies there was left behind by a daemon that died.
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(path))
        os.chmod(path, 0o600)
        found.listen(2048)
    except BaseException:
        found.close()
        raise
    return found
