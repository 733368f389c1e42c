"""A probe: who tries, how, and what it must come to."""

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from tests.security.target import Target
from tests.support.daemon import Answer

Who = Literal["page", "scanner", "child", "user"]

PATIENCE_SECONDS: Final = 30.0
OWN: Final = "localhost:<PORT>"
TOKEN: Final = "Authorization: Bearer <TOKEN>"


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    who: Who
    attempt: Callable[[Target], bytes]
    """Gives all that whoever tries has learned."""
    outcomes: tuple[str, ...]
    """The ways in which it may fail: the status of each answer, `nothing`, or the error of the operating system."""

    def __str__(self) -> str:
        return f"{self.who}: {self.name}"


def raw(who: Who, name: str, words: bytes, *outcomes: str) -> Probe:
    """Bytes over TCP."""
    return Probe(name, who, lambda target: said_to(target, target.filled_in(words)), outcomes)


def request(line: str, *headers: str, host: str | None = OWN, body: str = "", version: str = "HTTP/1.1") -> bytes:
    lines = [f"{line} {version}", *([] if host is None else [f"Host: {host}"]), *headers]
    if body and not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append("Content-Length: <LENGTH>")
    return "".join(f"{one}\r\n" for one in lines).encode() + b"\r\n" + body.encode()


def said_to(target: Target, words: bytes) -> bytes:
    with connected(target) as connection:
        with suppress(ConnectionError):  # it need not listen to the end
            connection.sendall(words)
        return heard(connection)


def connected(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.daemon.port), PATIENCE_SECONDS)


def heard(connection: socket.socket) -> bytes:
    """All that is said until the daemon hangs up; a daemon that does not is one that can be held."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def outcome_of(said: bytes) -> str:
    if not said:
        return "nothing"
    if said.startswith(b"HTTP/"):
        return " ".join(str(answer.status) for answer in answers_in(said))
    return said.decode(errors="replace").strip()


_HEAD: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")


def answers_in(said: bytes) -> list[Answer]:
    """Each answer, as strict as a client can be: bytes that belong to none are a mistake."""
    found: list[Answer] = []
    while said:
        head = _HEAD.match(said)
        assert head is not None, said
        lines = [line.partition(b":") for line in head[2].splitlines()]
        headers = {name.decode().lower(): value.strip().decode() for name, _, value in lines}
        end = head.end() + int(headers["content-length"])
        found.append(Answer(int(head[1]), headers, said[head.end() : end]))
        said = said[end:]
    return found
