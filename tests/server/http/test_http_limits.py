"""Limits of the HTTP server itself: headers, silence, connections."""

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, wait_until

QUICK = {
    "OSTLER_LIMITS__HEADER_SECONDS": "0.5",
    "OSTLER_LIMITS__BODY_SECONDS": "0.5",
    "OSTLER_LIMITS__IDLE_SECONDS": "1",
    "OSTLER_LIMITS__HEADER_BYTES": "8192",
}


def read_until_close(raw: socket.socket) -> bytes:
    """All that the daemon says until it hangs up."""
    raw.settimeout(15)
    parts = []
    while part := _receive(raw):
        parts.append(part)
    return b"".join(parts)


def _receive(raw: socket.socket) -> bytes:
    try:
        return raw.recv(65536)
    except ConnectionResetError:
        return b""


def connect(daemon: Daemon) -> socket.socket:
    return socket.create_connection(("127.0.0.1", daemon.port))


def make_request_head(daemon: Daemon, path: str = "/rpc", more: str = "") -> bytes:
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost:{daemon.port}\r\nContent-Type: application/json\r\n"
    return f"{lines}Authorization: Bearer {daemon.token}\r\n{more}\r\n".encode()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> object:
    with Daemon(tmp_path_factory.mktemp("quick") / "home", environment=QUICK) as daemon:
        yield daemon


def test_a_connection_that_says_nothing_is_closed(quick: Daemon) -> None:
    with connect(quick) as raw:
        assert read_until_close(raw).startswith(b"HTTP/1.1 408")


def test_headers_that_trickle_in_are_cut_off(quick: Daemon) -> None:
    with connect(quick) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert read_until_close(raw).startswith(b"HTTP/1.1 408")


def test_a_body_that_stops_coming_is_cut_off(quick: Daemon) -> None:
    with connect(quick) as raw:
        raw.sendall(make_request_head(quick, more="Content-Length: 1000\r\n") + b"{")
        assert read_until_close(raw) == b""


def test_an_idle_connection_is_closed_in_time(quick: Daemon) -> None:
    with connect(quick) as raw:
        raw.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost:{quick.port}\r\n\r\n".encode())
        began = time.monotonic()
        assert read_until_close(raw).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began >= 0.9


def test_a_stream_is_not_idle(quick: Daemon) -> None:
    with quick.follow() as stream:
        wait_until(lambda: quick.call("server/stats")["uptime_ms"] > 3000)
        quick.call("session/create", cwd="/")
        assert stream.take(1)[0]["type"] == "session.created"


@pytest.mark.parametrize("size", [9_000, 300_000])
def test_headers_over_the_limit_are_431(quick: Daemon, size: int) -> None:
    with connect(quick) as raw:
        with suppress(ConnectionError):  # it may hang up before we are done
            raw.sendall(make_request_head(quick, more=f"X-Padding: {'x' * size}\r\nContent-Length: 0\r\n"))
        assert read_until_close(raw)[:12] in {b"HTTP/1.1 431", b""}
    assert quick.call("server/info")


def test_many_headers_are_431_too(quick: Daemon) -> None:
    with connect(quick) as raw:
        raw.sendall(make_request_head(quick, more="".join(f"X-{n}: {n}\r\n" for n in range(2000))))
        assert read_until_close(raw)[:12] in {b"HTTP/1.1 431", b""}


def test_what_is_not_http_is_refused(quick: Daemon) -> None:
    for rubbish in (b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 1000):
        with connect(quick) as raw:
            raw.sendall(rubbish)
            assert read_until_close(raw)[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 408", b""}
    assert quick.call("server/info")


def test_a_request_smuggled_behind_another_is_refused_at_the_door(quick: Daemon) -> None:
    with connect(quick) as raw:
        smuggled = f"GET /metrics HTTP/1.1\r\nHost: localhost:{quick.port}\r\n\r\n".encode()
        raw.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost:{quick.port}\r\n\r\n".encode() + smuggled)
        answers = read_until_close(raw)
    assert answers.count(b"HTTP/1.1 200") == 1
    assert answers.count(b"HTTP/1.1 401") == 1


def test_there_is_a_limit_on_connections(home: Path) -> None:
    with Daemon(home, environment={"OSTLER_LIMITS__CONNECTIONS": "8"}) as daemon:
        held = [connect(daemon) for _ in range(8)]
        wait_until(lambda: fetch_health(daemon) == b"")
        for raw in held:
            raw.close()
        wait_until(lambda: fetch_health(daemon).startswith(b"HTTP/1.1 200"))


def fetch_health(daemon: Daemon) -> bytes:
    with connect(daemon) as raw:
        try:
            raw.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost:{daemon.port}\r\nConnection: close\r\n\r\n".encode())
        except ConnectionError:
            return b""
        return read_until_close(raw)


def test_trailers_are_counted_as_headers_are(quick: Daemon) -> None:
    """They come after the body, when the answer may have gone out already, and nobody ever reads them."""
    with connect(quick) as raw:
        chunked = f"POST /healthz HTTP/1.1\r\nHost: localhost:{quick.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        raw.sendall(chunked.encode() + b"1\r\nx\r\n0\r\n")
        with suppress(ConnectionError):
            # More than the sockets in between can hold while the daemon is busy.
            for number in range(30_000):
                raw.sendall(b"X-Trailer-%d: %s\r\n" % (number, b"x" * 1000))
            raise AssertionError("thirty megabytes of trailers were taken")
    assert quick.call("server/info")


def test_a_blank_line_after_an_answer_does_not_keep_the_connection(quick: Daemon) -> None:
    with connect(quick) as raw:
        raw.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost:{quick.port}\r\n\r\n".encode())
        raw.settimeout(15)
        assert raw.recv(65536).startswith(b"HTTP/1.1 200")
        raw.sendall(b"\r\n")
        assert b"HTTP/1.1 408" in read_until_close(raw)  # behind the rest of the answer, where that came in two pieces
