"""The TCP and Unix sockets that the daemon listens on."""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ostler.protocol.config import Listen
from ostler.server.config.configuration import BadConfig

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class ListenSockets:
    tcp: socket.socket
    unix: socket.socket
    path: Path
    url: str
    port: int
    inode: int
    """Inode of the Unix socket, to recognise our own file when closing."""

    @property
    def sockets(self) -> list[socket.socket]:
        return [self.tcp, self.unix]

    def close(self) -> None:
        """Close both, and remove the socket file unless another process has replaced it."""
        for one in self.sockets:
            one.close()
        with contextlib.suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()


def open_sockets(
    listen: Listen, socket_path: Path, *, preferred_ports: Sequence[int] = (), only_loopback: bool = False
) -> ListenSockets:
    """Listen on the port of the configuration, which must be free; or on the first of these that is, else on any.

    `only_loopback`: by the machine's policy, whatever the configuration says.
    """
    address = _parse_address(listen)
    if only_loopback and not address.is_loopback:
        raise BadConfig(
            f"{address} can be reached from other machines, which the policy of this machine forbids "
            "(forbid_remote). Listen on 127.0.0.1."
        )
    tcp = _bind_first_free(address, preferred_ports) if preferred_ports else _bind_tcp(address, listen.port)
    port = int(tcp.getsockname()[1])
    try:
        unix = _bind_unix(socket_path)
    except BadConfig:
        tcp.close()
        raise
    except OSError as error:
        tcp.close()
        raise BadConfig(f"{socket_path} cannot be used as a socket: {error.strerror or error}.") from None
    shown = f"[{address}]" if address.version == 6 else str(address)
    inode = socket_path.lstat().st_ino
    return ListenSockets(tcp, unix, socket_path, f"http://{shown}:{port}", port, inode)


def _parse_address(listen: Listen) -> IpAddress:
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


def _bind_first_free(address: IpAddress, ports: Sequence[int]) -> socket.socket:
    for port in ports:
        # Whatever the reason, nobody has asked for this one.
        with contextlib.suppress(OSError):
            return _listen_tcp(address, port)
    return _bind_tcp(address, 0)


def _bind_tcp(address: IpAddress, port: int) -> socket.socket:
    try:
        return _listen_tcp(address, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadConfig(
                f"Port {port} of {address} is taken by another program. Choose another one with --port or "
                "`[listen] port`; where none is set, a free one is taken."
            ) from None
        raise BadConfig(f"Port {port} of {address} cannot be listened on: {error.strerror}.") from None


def _listen_tcp(address: IpAddress, port: int) -> socket.socket:
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
    _remove_dead_socket(path)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(path))
        os.chmod(path, 0o600)
        found.listen(2048)
    except BaseException:
        found.close()
        raise
    return found


def _remove_dead_socket(path: Path) -> None:
    """Remove the socket file of a dead daemon: never another kind of file, or a socket that somebody listens on."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadConfig(f"{path} is there already, and is no socket. Choose another path with --socket.")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise BadConfig(f"Somebody listens on {path} already. Choose another path with --socket.")
