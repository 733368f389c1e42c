"""The proxy: it checks the name, resolves, checks the address and dials that address."""

import contextlib
import ipaddress
import os
import shutil
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import pytest
from anyio.abc import SocketAttribute, SocketStream

from ostler.tools.sandbox import Proxy
from ostler.tools.sandbox.network.allowlist import HostAllowlist, is_public
from tests.support.tables import try_each
from tests.tools.sandbox.sandbox_harness import SandboxHarness, find_python

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def start_server(received: list[bytes]) -> AsyncIterator[int]:
    """Serves on the host's loopback: records what it receives, and answers hello."""

    async def serve(client: SocketStream) -> None:
        async with client:
            received.append(await client.receive())
            await client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - it is not Django's
        group.cancel_scope.cancel()


async def send_request(proxy: Proxy, request: bytes) -> bytes:
    async with await anyio.connect_unix(proxy.path) as stream:
        await stream.send(request)
        answer = b""
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                answer += await stream.receive()
        return answer


def test_names_are_allowed_exactly_or_below_a_star() -> None:
    hosts = HostAllowlist(["pypi.org", "*.example.com", "127.0.0.1", "::1"])
    for allowed in ("pypi.org", "PyPI.org", "pypi.org.", "a.example.com", "a.b.example.com", "127.0.0.1", "[::1]"):
        assert hosts.allows(allowed), allowed
    for refused in (
        "evil.org", "xpypi.org", "pypi.org.evil.org", "a.pypi.org", "example.com", "evilexample.com", "127.1",
        "0x7f.1", "2130706433", "127.0.0.2", "::2", "pypi.org:80", "pypi.org\0.evil", "руpi.org", "pypi.org@evil",
        "", ".", "..", "*.example.com", "[::1%lo]", "::ffff:127.0.0.1", "-.example.com",
    ):  # fmt: skip
        assert not hosts.allows(refused), refused


def test_a_star_does_not_cover_addresses() -> None:
    assert not HostAllowlist(["*.0.0.1"]).allows("127.0.0.1")


@try_each("wrong", ["", "*", "*.", "a b", "http://pypi.org", "pypi.org/x", "a*.org", "ünï.org"])
def test_what_is_no_host_cannot_be_allowed(wrong: str) -> None:
    with pytest.raises(ValueError, match="not the name of a host"):
        HostAllowlist([wrong])


@try_each(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
        "2002:7f00:1::", "2001::1", "::7f00:1", "2001:db8::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_global_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


async def test_a_tunnel_leads_to_an_allowed_host() -> None:
    received: list[bytes] = []
    async with start_server(received) as port, Proxy(["127.0.0.1"]) as proxy:
        answer = await send_request(proxy, b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nfirst words" % port)
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert received == [b"first words"]


async def test_a_whole_url_is_sent_on_with_the_name_that_was_checked() -> None:
    received: list[bytes] = []
    async with start_server(received) as port, Proxy(["127.0.0.1"]) as proxy:
        fields = b"Host: internal.example\r\nProxy-Authorization: x\r\nA: b\r\n\r\n"
        answer = await send_request(proxy, b"GET http://127.0.0.1:%d/a?b=c HTTP/1.1\r\n%s" % (port, fields))
    assert answer.endswith(b"hello")
    assert received == [b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nA: b\r\n\r\n" % port]


async def test_a_host_that_was_not_allowed_is_refused_and_never_dialled() -> None:
    received: list[bytes] = []
    async with start_server(received) as port, Proxy(["pypi.org"]) as proxy:
        for host in (b"127.0.0.1", b"localhost", b"2130706433", b"[::1]"):
            tunnel = await send_request(proxy, b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host, port))
            assert tunnel.startswith(b"HTTP/1.1 403 "), tunnel
            assert b"is not among the hosts" in tunnel
            forwarded = await send_request(proxy, b"GET http://%s:%d/ HTTP/1.1\r\n\r\n" % (host, port))
            assert forwarded.startswith(b"HTTP/1.1 403 ")
    assert received == []


async def test_an_allowed_name_that_leads_to_an_address_inside_is_refused() -> None:
    received: list[bytes] = []
    async with start_server(received) as port, Proxy(["localhost"]) as proxy:
        answer = await send_request(proxy, b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"not public" in answer
    assert received == []


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1", b"CONNECT 127.0.0.1 HTTP/1.1", b"CONNECT 127.0.0.1:0 HTTP/1.1", b"nonsense",
        b"CONNECT 127.0.0.1:99999 HTTP/1.1", b"GET https://127.0.0.1/ HTTP/1.1", b"GET file:///etc/passwd HTTP/1.1",
        b"GET http://a@127.0.0.1/ HTTP/1.1", b"CONNECT 127.0.0.1:1 HTTP/1.1\nX: y", b"CONNECT a\0b:1 HTTP/1.1",
        b"GET http://127.0.0.1:x/ HTTP/1.1", b"\xff\xff\xff HTTP/1.1 x",
    ],
)  # fmt: skip
async def test_what_is_not_understood_is_refused(request_line: bytes) -> None:
    async with Proxy(["127.0.0.1"]) as proxy:
        assert (await send_request(proxy, request_line + b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_a_head_without_end_is_refused() -> None:
    async with Proxy(["127.0.0.1"]) as proxy:
        assert (await send_request(proxy, b"GET ".ljust(64 * 1024, b"a"))).startswith(b"HTTP/1.1 400 ")


async def test_the_socket_is_ours_alone_and_goes_with_the_proxy() -> None:
    async with Proxy([]) as proxy:
        place = os.path.dirname(proxy.path)
        assert os.stat(place).st_mode & 0o777 == 0o700
        assert os.listdir(place) == ["proxy.sock"]
    with pytest.raises(FileNotFoundError):
        os.stat(place)


async def test_what_is_raised_while_it_is_open_goes_on_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Proxy([]):
            raise ZeroDivisionError


async def test_a_sandboxed_command_reaches_an_allowed_host_and_no_other(sandbox: SandboxHarness) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    if sandbox.user is not None:
        pytest.skip("the proxy's folder belongs to whoever runs the tests")
    received: list[bytes] = []
    async with start_server(received) as port, start_server(received) as other, Proxy(["127.0.0.1"]) as proxy:
        profile = sandbox.build_profile("read_only", network=("127.0.0.1",), proxy=proxy.path)
        fetch = "curl -sS --max-time 20 --noproxy ''"
        script = (
            f"{fetch} http://127.0.0.1:{port}/plain; echo; {fetch} -p http://127.0.0.1:{port}/tunnel; echo; "
            f"{fetch} http://localhost:{other}/; exec 3<>/dev/tcp/127.0.0.1/{other} || exit 42"
        )
        done = await anyio.to_thread.run_sync(sandbox.run, script, profile)
    assert done.output.startswith("hello\nhello\nlocalhost is not among the hosts"), done.output
    assert done.code == 42, done.output
    assert [line.split(b" ")[1] for line in received] == [b"/plain", b"/tunnel"]


async def test_allowed_hosts_without_a_proxy_are_no_network(sandbox: SandboxHarness) -> None:
    received: list[bytes] = []
    async with start_server(received) as port:
        profile = sandbox.build_profile("read_only", network=("127.0.0.1",))
        done = await anyio.to_thread.run_sync(sandbox.run, f"exec 3<>/dev/tcp/127.0.0.1/{port} || exit 42", profile)
    assert done.code == 42
    assert received == []


async def test_the_command_behind_the_proxy_keeps_its_exit_code_and_its_input(sandbox: SandboxHarness) -> None:
    if sandbox.user is not None:
        pytest.skip("the proxy's folder belongs to whoever runs the tests")
    async with Proxy([]) as proxy:
        profile = sandbox.build_profile("read_only", network=(), proxy=proxy.path)
        assert (await anyio.to_thread.run_sync(sandbox.run, "cat; exit 7", profile)).code == 7
        assert (await anyio.to_thread.run_sync(sandbox.run, "kill -9 $$", profile)).code == 137


async def test_the_command_behind_the_proxy_makes_no_unix_socket_and_cannot_use_the_forwarders(
    sandbox: SandboxHarness,
) -> None:
    if sandbox.user is not None:
        pytest.skip("the proxy's folder belongs to whoever runs the tests")
    script = f"""{find_python()} - <<'END'
import os, socket
for attempt in (
    lambda: socket.socket(socket.AF_UNIX),
    lambda: open("/proc/1/mem", "rb"),
    lambda: os.readlink("/proc/1/fd/0"),
):
    try:
        attempt()
        print("GOT IT")
    except PermissionError:
        print("refused")
print(socket.socketpair()[0].family.name)
END"""
    async with Proxy([]) as proxy:
        profile = sandbox.build_profile(network=(), proxy=proxy.path)
        done = await anyio.to_thread.run_sync(sandbox.run, script, profile)
        assert done.output == "refused\nrefused\nrefused\nAF_UNIX\n"
        allowed = sandbox.build_profile(network=(), proxy=proxy.path, unix_sockets="allow")
        assert (await anyio.to_thread.run_sync(sandbox.run, script, allowed)).output.startswith("GOT IT\nrefused\n")
