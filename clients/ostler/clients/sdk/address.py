"""Finding the daemon: what `daemon.json` says, and the token. Standard library only."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostler.clients.sdk.errors import AccessRefused, DaemonNotRunning
from ostler.protocol.places import Places


@dataclass(frozen=True, slots=True)
class DaemonFile:
    """What a daemon writes about itself when it is ready."""

    pid: int
    version: str
    url: str
    socket: str | None
    started: str


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon listens, and the token to send."""

    url: str
    socket: str | None = None
    """A Unix socket, which takes precedence over the URL."""
    token: str | None = None

    def __str__(self) -> str:
        return self.socket or self.url


def read_daemon_file(path: Path) -> DaemonFile | None:
    """What `daemon.json` says, or None when there is none or it says nothing usable."""
    try:
        return _parse_daemon_file(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_daemon_file(data: dict[str, Any]) -> DaemonFile:
    socket = data.get("socket")
    return DaemonFile(
        pid=int(data["pid"]),
        version=str(data.get("version", "")),
        url=str(data["url"]),
        socket=None if socket is None else str(socket),
        started=str(data.get("started", "")),
    )


def read_token(path: Path) -> str | None:
    """The token, or None when there is none or it is not ours to read."""
    try:
        return path.read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def build_address(daemon: DaemonFile, places: Places) -> Address:
    """The socket where there is one: its folder is ours alone, and it needs no token."""
    socket = daemon.socket if daemon.socket and os.path.exists(daemon.socket) else None
    return Address(daemon.url, socket, read_token(places.token_file))


def find_address(places: Places) -> Address:
    """The address of the daemon of these places."""
    daemon = read_daemon_file(places.daemon_file)
    if daemon is None:
        raise DaemonNotRunning(f"No daemon runs for {places.data}. Start one with `ostler start`.")
    address = build_address(daemon, places)
    if address.socket is None and not pid_exists(daemon.pid):
        # Whoever has that port now must not be sent our token.
        raise DaemonNotRunning(
            f"The daemon of {places.data} (pid {daemon.pid}) is gone. Start one with `ostler start`."
        )
    return address


def build_access_error(address: Address) -> AccessRefused:
    """The error for a 401 or 403."""
    if address.token is None:
        return AccessRefused(f"The daemon at {address} wants a token, and none could be read.")
    return AccessRefused(f"The daemon at {address} does not accept this token or this host name.")


def pid_exists(pid: int) -> bool:
    """Whether a process has this pid; whose it is, is another question."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return pid > 0
