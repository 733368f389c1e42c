"""Asking whether a daemon runs, without an HTTP library: `status` answers before one could be imported."""

import http.client
import json
import socket
import time
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ostler.clients.sdk.address import Address, DaemonFile, build_address, pid_exists, read_daemon_file
from ostler.clients.sdk.errors import DaemonUnreachable
from ostler.protocol.places import Places

PROBE_SECONDS: Final = 2.0
_CLOCK_SECONDS: Final = 10.0  # a clock that was set meanwhile moves the start times of processes

Condition = Literal["running", "silent", "stale", "none"]


@dataclass(frozen=True, slots=True)
class DaemonState:
    """What is known of the daemon of a home."""

    condition: Condition
    """Running: it answers. Silent: its process lives and does not answer. Stale: it is gone and left
    `daemon.json` behind. None: there is no `daemon.json`."""
    file: DaemonFile | None = None
    ready: bool = False
    read_only: str | None = None

    @property
    def running(self) -> bool:
        return self.condition == "running"


def probe(places: Places, seconds: float = PROBE_SECONDS) -> DaemonState:
    """Whether the daemon of these places runs, by asking it."""
    file = read_daemon_file(places.daemon_file)
    if file is None:
        return DaemonState("none")
    readiness = _fetch_readiness(_build_safe_address(file, places), seconds)
    # Only authorized clients get the pid; an answer without one is taken to come from the process that lives.
    if readiness is not None and (readiness["pid"] == file.pid if "pid" in readiness else is_daemon(file)):
        return DaemonState("running", file, bool(readiness.get("ready")), readiness.get("read_only"))
    return DaemonState("silent" if is_daemon(file) else "stale", file)


def _build_safe_address(file: DaemonFile, places: Places) -> Address:
    address = build_address(file, places)
    if address.socket is None and not pid_exists(file.pid):
        # Whoever has that port now must not be sent our token.
        return Address(address.url)
    return address


def _fetch_readiness(address: Address, seconds: float) -> dict[str, Any] | None:
    try:
        _, body = exchange(address, "GET", "/readyz", seconds=seconds)
        answer = json.loads(body)
    except (DaemonUnreachable, ValueError):
        return None
    return answer if isinstance(answer, dict) and "ready" in answer else None


def is_daemon(file: DaemonFile) -> bool:
    """Whether the process that wrote this file still lives; a pid may long be somebody else's."""
    if not pid_exists(file.pid):
        return False
    # Imported here: only a daemon that does not answer makes it necessary.
    import psutil  # noqa: PLC0415

    try:
        process = psutil.Process(file.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.create_time() <= _parse_seconds(file.started) + _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, ValueError):
        return True


def _parse_seconds(moment: str) -> float:
    from datetime import datetime  # noqa: PLC0415 - as above

    return datetime.fromisoformat(moment).timestamp()


def compute_uptime(file: DaemonFile) -> float | None:
    """How long the daemon has been up, as far as its file can be read."""
    try:
        return max(0.0, time.time() - _parse_seconds(file.started))
    except ValueError:
        return None


def exchange(
    address: Address, method: str, path: str, body: bytes | None = None, *, seconds: float = PROBE_SECONDS
) -> tuple[int, bytes]:
    """One request and its answer: status and body."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    connection = _open_connection(address, seconds)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as broken:
        raise DaemonUnreachable(f"The daemon at {address} does not answer: {broken}. See `ostler doctor`.") from broken
    finally:
        connection.close()


def _open_connection(address: Address, seconds: float) -> http.client.HTTPConnection:
    if address.socket is not None:
        return _SocketConnection(address.socket, seconds)
    parts = urlsplit(address.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "127.0.0.1", parts.port, timeout=seconds)


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
