"""The sockets that the daemon listens on."""

import asyncio
import socket
from pathlib import Path

import pytest

from ostler.protocol.config import Listen
from ostler.server.config.configuration import BadConfig
from ostler.server.http.sockets import open_sockets


@pytest.mark.anyio
async def test_answers_on_a_kept_connection_do_not_wait_for_acknowledgements(tmp_path: Path) -> None:
    """asyncio switches Nagle's algorithm off for accepted connections only where the listening socket says TCP."""
    listening = open_sockets(Listen(port=0), tmp_path / "ostler.sock")
    no_delay: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found: socket.socket = writer.get_extra_info("socket")
        no_delay.set_result(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(accept, sock=listening.tcp):
        _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
        assert await asyncio.wait_for(no_delay, 10)
        writer.close()
        await writer.wait_closed()
    listening.unix.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "127.0.0.1.nip.io", "::ffff:10.0.0.1"])
def test_an_address_that_is_not_loopback_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(BadConfig):
        open_sockets(Listen(host=host, port=0), tmp_path / "ostler.sock")


def test_a_socket_that_a_dead_daemon_left_is_replaced_and_is_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "ostler.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    listening = open_sockets(Listen(port=0), path)
    assert path.stat().st_mode & 0o777 == 0o600
    for one in listening.sockets:
        one.close()
