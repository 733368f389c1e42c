"""Connections to a provider: compressed answers, proxies, other addresses, and a disk that fails at the last moment."""

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ostler.protocol.errors import StorageFailed
from ostler.server.models.anthropic.provider import AnthropicProvider
from tests.server.models.provider_requests import (
    KEY,
    collect_events,
    collect_failure,
    list_types,
    make_request,
    open_provider,
)
from tests.support.messages_api.behaviors import Reply, Send
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio

PACKED = {"content-type": "text/event-stream", "content-encoding": "gzip"}
STREAM = b'data: {"type":"message_start"}\n\ndata: {"type":"message_stop"}\n\n'


@pytest.fixture
async def provider(api: ScriptedApi) -> AsyncIterator[AnthropicProvider]:
    async with open_provider(api.url) as made:
        yield made


class Proxy:
    """Passes whole addresses on to one server, and keeps the heads of what it was asked."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        first, _, rest = head.partition("\r\n")
        method, address, version = first.split()
        path = "/" + address.split("/", 3)[3]
        upstream, onward = await asyncio.open_connection("127.0.0.1", self._port)
        onward.write(f"{method} {path} {version}\r\n{rest}".encode())
        await asyncio.gather(_copy(reader, onward), _copy(upstream, writer), return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
    target.close()


@asynccontextmanager
async def start_proxy(api: ScriptedApi) -> AsyncIterator[tuple[Proxy, int]]:
    proxy = Proxy(int(api.url.rpartition(":")[2]))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("written", ["http://127.0.0.1:{}", "127.0.0.1:{}", "http://us%20er:p%40ss@127.0.0.1:{}"])
async def test_proxy_of_the_environment_is_used_and_greeted(
    api: ScriptedApi, no_proxies: pytest.MonkeyPatch, written: str
) -> None:
    api.always(message(says("hi")))
    async with start_proxy(api) as (proxy, port):
        no_proxies.setenv("http_proxy", written.format(port))
        # Any name will do: it is for the proxy to find.
        async with open_provider("http://provider.invalid:8080") as provider:
            assert list_types(await collect_events(provider))[-1] == "message_stop"
    assert [head.split("\r\n")[0] for head in proxy.heads] == ["POST http://provider.invalid:8080/v1/messages HTTP/1.1"]
    greeting = f"proxy-authorization: basic {base64.b64encode(b'us er:p@ss').decode()}".lower()
    assert (greeting in proxy.heads[0].lower()) == ("@" in written)


async def test_proxy_is_passed_by_where_the_environment_says_so(
    api: ScriptedApi, no_proxies: pytest.MonkeyPatch
) -> None:
    api.always(message(says("hi")))
    no_proxies.setenv("http_proxy", "http://127.0.0.1:9")
    no_proxies.setenv("no_proxy", "127.0.0.1")
    async with open_provider(api.url) as provider:
        assert list_types(await collect_events(provider))[-1] == "message_stop"


async def test_proxy_that_is_not_there_is_a_connection_failure(
    api: ScriptedApi, no_proxies: pytest.MonkeyPatch
) -> None:
    no_proxies.setenv("http_proxy", "http://127.0.0.1:9")
    async with open_provider(api.url) as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "connection"
    assert api.requests == []


async def test_answer_that_is_packed_all_the_same_is_understood(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(Reply(headers=PACKED, body=gzip.compress(STREAM)))
    assert list_types(await collect_events(provider)) == ["message_start", "message_stop"]


# The ids are given: gzip writes the time into its head, and two workers would name the test differently.
@pytest.mark.parametrize(
    "sent", [b"no gzip at all", gzip.compress(STREAM)[:-20] + b"x" * 20], ids=["no gzip", "a broken end"]
)
async def test_answer_that_cannot_be_unpacked_is_garbage(
    api: ScriptedApi, provider: AnthropicProvider, sent: bytes
) -> None:
    api.always(Reply((Send(sent),), headers=PACKED))
    failure, _ = await collect_failure(provider)
    assert failure.kind == "garbage"
    assert "decompressed" in failure.message


async def test_answer_that_is_packed_in_a_way_that_nobody_here_knows_is_garbage(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(Reply(headers={**PACKED, "content-encoding": "br"}, body=b"whatever"))
    failure, _ = await collect_failure(provider)
    assert (failure.kind, "decompressed" in failure.message) == ("garbage", True)


async def test_key_is_not_sent_to_whom_a_provider_points(api: ScriptedApi, provider: AnthropicProvider) -> None:
    with ScriptedApi() as other:
        other.always(message(says("thank you for the key")))
        api.always(Reply(status=307, headers={"location": f"{other.url}/v1/messages"}, body=b""))
        failure, _ = await collect_failure(provider)
        assert (failure.kind, failure.status) == ("garbage", 307)
        assert other.requests == []
    assert KEY in str(api.requests[0].headers)


async def test_address_that_points_to_itself_is_not_asked_for_ever(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(Reply(status=308, headers={"location": "/v1/messages"}, body=b""))
    failure, _ = await collect_failure(provider)
    assert failure.kind == "garbage"
    assert len(api.requests) <= 10


async def test_connection_of_a_redirection_is_used_again(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(attempts(Reply(status=307, headers={"location": "/v1/messages"}, body=b""), message(says("hi"))))
    await collect_events(provider)
    assert (len(api.requests), api.open_connections) == (2, 1)


async def test_nothing_leaves_where_the_disk_fails_and_the_next_request_does(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(message(says("hi")))
    await collect_events(provider)

    async def fails() -> None:
        raise StorageFailed("The disk is full.", reason="full")

    with pytest.raises(StorageFailed):
        async with provider.stream(replace(make_request("lost"), stored=fails)):
            pass
    assert list_types(await collect_events(provider, "kept"))[-1] == "message_stop"
    assert _list_sent_texts(api) == ["hello", "kept"]


def _list_sent_texts(api: ScriptedApi) -> Sequence[str]:
    return [one.body["messages"][0]["content"][0]["text"] for one in api.requests]
