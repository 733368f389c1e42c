"""Access control: no request gets further without the right host, origin and token."""

import asyncio
import hmac
import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""The probes; everything else needs the token."""

_WANTED: Final = b"Wanted: `Authorization: Bearer TOKEN`, with the content of the file `token` in the home folder.\n"
_DELAY_SECONDS: Final = 1.0
_MAX_DELAYED: Final = 1024
_MAX_GENERATIONS: Final = 256


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a Unix socket, as the kernel says."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """The values of `Host` and `Origin` that are accepted."""

    hosts: frozenset[bytes]
    socket_hosts: frozenset[bytes]
    origins: frozenset[bytes]


def make_allowed_names(url: str, allow_hosts: Iterable[str], allow_origins: Iterable[str]) -> AllowedNames:
    scheme, _, own = url.partition("://")
    port = own.rpartition(":")[2]
    everywhere = own.startswith(("0.0.0.0:", "[::]:"))
    local = [*([] if everywhere else [own]), f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"]
    extra = [host.lower() for host in allow_hosts]
    origins = [
        *(f"{scheme}://{host}" for host in local),
        *(origin.lower().rstrip("/") for origin in allow_origins),
    ]
    return AllowedNames(_encode_names([*local, *extra]), _encode_names(["localhost", *extra]), _encode_names(origins))


def _encode_names(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


class AccessGuard:
    """ASGI middleware that authenticates every request, on every route and every kind of connection."""

    def __init__(self, app: ASGIApp, *, token: bytes, names: AllowedNames, wrong_per_minute: int) -> None:
        self._app = app
        self._token = token
        self._names = names
        self.wrong_per_minute = wrong_per_minute
        self._wrong_times: deque[float] = deque()
        self._delayed = 0
        self._uid = os.getuid()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._refuse_other(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        peer: Peer | None = scope["state"].get("peer")
        if not self._is_for_us(headers, on_socket=peer is not None):
            await _send_status(send, 403)
            return
        known = self._knows(headers, peer)
        scope["state"]["known"] = known
        if known or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if _get_single_header(headers, b"authorization") is not None:
            await self._delay_wrong_token()
        await _send_status(send, 401, _WANTED)

    def _is_for_us(self, headers: list[tuple[bytes, bytes]], *, on_socket: bool) -> bool:
        """Check `Host` and `Origin`, against DNS rebinding and foreign pages.

        A page that resolved its own name to our address sends that name; a page elsewhere sends its origin.
        """
        hosts = self._names.socket_hosts if on_socket else self._names.hosts
        host = _get_single_header(headers, b"host")
        if host is None or host.lower() not in hosts:
            return False
        origins = [value for name, value in headers if name == b"origin"]
        return not origins or (len(origins) == 1 and origins[0].lower() in self._names.origins)

    def _knows(self, headers: list[tuple[bytes, bytes]], peer: Peer | None) -> bool:
        given = _get_single_header(headers, b"authorization")
        if given is not None:
            scheme, _, token = given.partition(b" ")
            return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)
        return peer is not None and peer.uid == self._uid and not is_descendant(peer.pid)

    async def _delay_wrong_token(self) -> None:
        """Rate limit: past `wrong_per_minute`, wrong tokens are answered late; right ones never are."""
        now = time.monotonic()
        self._wrong_times.append(now)
        while self._wrong_times and self._wrong_times[0] < now - 60:
            self._wrong_times.popleft()
        if len(self._wrong_times) > 10_000:
            self._wrong_times.popleft()
        if len(self._wrong_times) <= self.wrong_per_minute or self._delayed >= _MAX_DELAYED:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(_DELAY_SECONDS)
        finally:
            self._delayed -= 1

    async def _refuse_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Only HTTP is spoken here; a WebSocket is closed before it is open."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})


def _get_single_header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> bytes | None:
    """The value of a header that must not be given twice: two proxies may disagree on which one counts."""
    found = [value for name, value in headers if name == wanted]
    return found[0] if len(found) == 1 else None


async def _send_status(send: Send, status: int, line: bytes = b"") -> None:
    """Answer with a status, and at most one line that is always the same: a stranger learns no detail."""
    kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"www-authenticate", b"Bearer")] if line else []
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*kind, (b"content-length", b"%d" % len(line)), (b"connection", b"close")],
        }
    )
    await send({"type": "http.response.body", "body": line})


def is_descendant(pid: int, of: int | None = None) -> bool:
    """Whether a process descends from the daemon; where that cannot be found out, the answer is yes."""
    ancestor = os.getpid() if of is None else of
    if pid <= 0:
        return True  # a process that this namespace has no number for
    for _ in range(_MAX_GENERATIONS):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        parent = _read_parent_pid(pid)
        if parent is None:
            return True
        pid = parent
    return True


def _read_parent_pid(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
        # The name of the program may hold anything, also parentheses; what follows the last one is numbers.
        return int(status[status.rindex(b")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return None
