"""TLS connections to a provider: which certificates are trusted, and tunnels through a proxy."""

import asyncio
import base64
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server.models.provider_requests import collect_events, collect_failure, list_types, open_provider
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi
from tests.support.programs import needs

pytestmark = [pytest.mark.anyio, needs("openssl")]


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-out", made.certificate, "-keyout", made.key),
        ],
        check=True,
        capture_output=True,
    )
    return made


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
    target.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    upstream, onward = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_copy(reader, onward), _copy(upstream, writer), return_exceptions=True)


@asynccontextmanager
async def start_tls_server(api: ScriptedApi, made: Certificate) -> AsyncIterator[int]:
    """The port of a server that speaks TLS for the scripted one."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    target_port = int(api.url.rpartition(":")[2])
    server = await asyncio.start_server(lambda r, w: _forward(r, w, target_port), "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_certificate_that_the_environment_names_is_trusted(
    api: ScriptedApi, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.always(message(says("hi")))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    async with start_tls_server(api, certificate) as port, open_provider(f"https://localhost:{port}") as provider:
        assert list_types(await collect_events(provider))[-1] == "message_stop"


async def test_certificate_that_nobody_vouches_for_is_refused_before_the_key_is_sent(
    api: ScriptedApi, certificate: Certificate
) -> None:
    async with start_tls_server(api, certificate) as port, open_provider(f"https://localhost:{port}") as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "connection"
    assert "certificate" in failure.message
    assert api.requests == []


async def test_certificate_of_another_name_is_refused(
    api: ScriptedApi, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    async with start_tls_server(api, certificate) as port, open_provider(f"https://127.0.0.1:{port}") as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "connection"
    assert api.requests == []


async def test_proxy_passes_what_is_encrypted_and_sees_no_key(
    api: ScriptedApi, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.always(message(says("hi")))
    heads: list[str] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        port = int(heads[-1].split()[1].rpartition(":")[2])
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await _forward(reader, writer, port)

    proxy = await asyncio.start_server(connect, "127.0.0.1", 0)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    monkeypatch.setenv("https_proxy", f"http://me:word@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
    monkeypatch.setenv("no_proxy", "")
    async with start_tls_server(api, certificate) as port, open_provider(f"https://localhost:{port}") as provider:
        assert list_types(await collect_events(provider))[-1] == "message_stop"
    proxy.close()
    assert heads[0].startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n")
    assert base64.b64encode(b"me:word").decode() in heads[0]
    assert "key" not in heads[0].lower()
    # The greeting is for the proxy, and for nobody behind it.
    assert "proxy-authorization" not in api.requests[0].headers
