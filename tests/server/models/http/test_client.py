"""The HTTP client against servers that answer byte by byte as a test says, also what no server should answer."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from ostler.server.models.http.address import Address
from ostler.server.models.http.client import HttpClient
from ostler.server.models.http.errors import ConnectionBroken, NotHttp, ProxyRefused, SilenceTimeout
from ostler.server.models.http.response import Response
from tests.support.connections import Serve as Handler
from tests.support.connections import serve_connections

pytestmark = pytest.mark.anyio
LONG = [b"x" * 1024 * 1024] * 12
"""More than what the buffers between two processes hold."""


@asynccontextmanager
async def serve(handle: Handler) -> AsyncIterator[tuple[HttpClient, Address]]:
    """A client of a server that does this with each connection."""

    async with serve_connections(handle) as port:
        address = Address.parse(f"http://127.0.0.1:{port}/v1/messages")
        client = HttpClient(address, headers={"x-api-key": "k"}, proxy=None, tls=None, connect_seconds=5)
        try:
            yield client, address
        finally:
            await client.close()


def answers(*each: bytes) -> Handler:
    """One of these for each request of a connection, and then its end."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for one in each:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(one)
            await writer.drain()

    return handle


async def read_all(response: Response) -> bytes:
    whole = bytearray()
    while piece := await response.read():
        whole += piece
    response.close()
    return bytes(whole)


async def ask(client: HttpClient, address: Address, silence: float | None = 5) -> bytes:
    return await read_all(await client.request("POST", address, silence=silence))


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nlast: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["with its length", "in chunks", "to the end", "of an old server", "after words that announce it"],
)
async def test_answer_is_read_however_it_is_framed(sent: bytes) -> None:
    async with serve(answers(sent)) as (client, address):
        response = await client.request("POST", address, silence=5)
        assert (response.status, "link" in response.headers, "last" in response.headers) == (200, False, False)
        assert await read_all(response) == b"hello"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n",
    ],
    ids=["before it", "in its head", "in its body", "between chunks"],
)
async def test_answer_that_breaks_off_is_broken(sent: bytes) -> None:
    async with serve(answers(sent)) as (client, address):
        with pytest.raises(ConnectionBroken):
            await ask(client, address)


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 60_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;" + b"x" * 300_000,
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: tea\r\n\r\n",
    ],
    ids=["another protocol", "headers without an end", "a header without one", "a chunk's", "an upgrade"],
)
async def test_what_is_no_http_is_given_up(sent: bytes) -> None:
    async with serve(answers(sent)) as (client, address):
        with pytest.raises(NotHttp):
            await ask(client, address)


async def test_connection_that_has_said_more_than_it_was_asked_is_not_used_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
    async with serve(answers(answer + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfake")) as (client, address):
        assert [await ask(client, address), await ask(client, address)] == [b"hi", b"hi"]


async def test_connection_that_the_server_closes_is_not_used_again() -> None:
    seen = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await answers(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi")(reader, writer)

    async with serve(handle) as (client, address):
        assert [await ask(client, address), await ask(client, address)] == [b"hi", b"hi"]
    assert seen == 2


async def test_refusal_in_the_middle_of_a_long_request_is_read() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\nlong")
        await writer.drain()
        while await reader.read(65536):  # else the rest that comes would reset the connection
            pass

    async with serve(handle) as (client, address):
        response = await client.request("POST", address, LONG, silence=5)
        assert (response.status, await read_all(response)) == (413, b"long")


async def test_server_that_takes_nothing_is_silent() -> None:
    done = anyio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()

    async with serve(handle) as (client, address):
        with pytest.raises(SilenceTimeout):
            await client.request("POST", address, LONG, silence=0.1)
        done.set()


async def test_long_answer_waits_for_its_reader() -> None:
    size, sent = 30_000_000, 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 1_000_000)
            sent += 1_000_000
            await writer.drain()

    async with serve(handle) as (client, address):
        response = await client.request("POST", address, silence=5)
        assert await response.read() != b""
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sent < size / 2
        assert len(await read_all(response)) > size / 2


async def test_whoever_waits_for_an_answer_hears_of_the_end_of_the_client() -> None:
    async with serve(answers(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nh", b"")) as (client, address):
        response = await client.request("POST", address, silence=5)
        assert await response.read() == b"h"
        async with anyio.create_task_group() as group:
            group.start_soon(client.close)
            with pytest.raises(ConnectionBroken):
                await response.read()


async def test_proxy_that_lets_nobody_through_is_named() -> None:
    async with serve(answers(b"HTTP/1.1 407 Who are you\r\n\r\n")) as (_, proxy):
        origin = Address.parse("https://provider.invalid/v1/messages")
        trusts_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client = HttpClient(origin, headers={}, proxy=proxy, tls=trusts_nobody, connect_seconds=5)
        with pytest.raises(ProxyRefused, match="407"):
            await client.request("POST", origin, silence=5)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://a", ("http://a", "a:80", "/")),
        ("https://Example.com:8443/x y?q=ü", ("https://example.com:8443", "example.com:8443", "/x%20y?q=%C3%BC")),
        ("http://[::1]:80/v1", ("http://[::1]", "[::1]:80", "/v1")),
        ("https://bücher.example/", ("https://xn--bcher-kva.example", "xn--bcher-kva.example:443", "/")),
    ],
)
def test_address_is_written_as_a_request_has_it(url: str, named: tuple[str, str, str]) -> None:
    address = Address.parse(url)
    assert (address.origin, address.authority, address.target) == named


def test_header_with_a_line_break_is_refused() -> None:
    address = Address.parse("http://a")
    with pytest.raises(ValueError, match="'x' has a line break"):
        HttpClient(address, headers={"x": "1\r\ny: 2"}, proxy=None, tls=None, connect_seconds=1)
