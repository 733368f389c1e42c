"""A probe: who attacks, how, and which outcomes are allowed."""

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from tests.security.target import Target
from tests.support.daemon import HttpResponse

Attacker = Literal["page", "scanner", "child", "user"]

TIMEOUT_SECONDS: Final = 30.0
OWN_HOST: Final = "localhost:<PORT>"
TOKEN: Final = "Authorization: Bearer <TOKEN>"


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    attacker: Attacker
    attempt: Callable[[Target], bytes]
    """Gives all that whoever tries has learned."""
    outcomes: tuple[str, ...]
    """The ways in which it may fail: the status of each answer, `nothing`, or the error of the operating system."""

    def __str__(self) -> str:
        return f"{self.attacker}: {self.name}"


def make_raw_probe(who: Attacker, name: str, words: bytes, *outcomes: str) -> Probe:
    """Bytes over TCP."""
    return Probe(name, who, lambda target: send_raw(target, target.fill_in(words)), outcomes)


def build_request(
    line: str, *headers: str, host: str | None = OWN_HOST, body: str = "", version: str = "HTTP/1.1"
) -> bytes:
    lines = [f"{line} {version}", *([] if host is None else [f"Host: {host}"]), *headers]
    if body and not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append("Content-Length: <LENGTH>")
    return "".join(f"{one}\r\n" for one in lines).encode() + b"\r\n" + body.encode()


def send_raw(target: Target, words: bytes) -> bytes:
    with open_connection(target) as connection:
        with suppress(ConnectionError):  # it need not listen to the end
            connection.sendall(words)
        return receive_all(connection)


def open_connection(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.daemon.port), TIMEOUT_SECONDS)


def receive_all(connection: socket.socket) -> bytes:
    """All that is said until the daemon hangs up; a daemon that does not is one that can be held."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def classify_outcome(said: bytes) -> str:
    if not said:
        return "nothing"
    if said.startswith(b"HTTP/"):
        return " ".join(str(answer.status) for answer in parse_answers(said))
    return said.decode(errors="replace").strip()


_HEAD: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")


def parse_answers(said: bytes) -> list[HttpResponse]:
    """Each answer, as strict as a client can be: bytes that belong to none are a mistake."""
    found: list[HttpResponse] = []
    while said:
        head = _HEAD.match(said)
        assert head is not None, said
        lines = [line.partition(b":") for line in head[2].splitlines()]
        headers = {name.decode().lower(): value.strip().decode() for name, _, value in lines}
        end = head.end() + int(headers["content-length"])
        found.append(HttpResponse(int(head[1]), headers, said[head.end() : end]))
        said = said[end:]
    return found
