"""The event loop is never blocked: what blocks runs in a thread."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from blockbuster import blockbuster_ctx

from ostler.server.daemon.daemon import Daemon as RunningDaemon
from tests.support.inprocess import InProcessDaemon
from tests.support.stalls import StallMonitor


@contextmanager
def raise_on_blocking_calls() -> Iterator[None]:
    """A call of ours that blocks inside the event loop raises, and so becomes an internal error."""
    with blockbuster_ctx(["ostler.server", "ostler.storage", "ostler.protocol"]) as blockbuster:
        # The kernel answers /proc from memory, and the log must be written in the order of what happened.
        blockbuster.functions["os.read"].can_block_in("ostler/server/http/access.py", "_read_parent_pid")
        blockbuster.functions["io.BufferedReader.read"].can_block_in("ostler/server/http/access.py", "_read_parent_pid")
        for name in ("io.BufferedWriter.write", "io.BufferedWriter.flush", "os.write"):
            if name in blockbuster.functions:
                blockbuster.functions[name].can_block_in("ostler/server/observability/logs.py", "msg")
        yield


def test_no_method_blocks_the_event_loop(home: Path) -> None:
    with InProcessDaemon(home) as daemon, raise_on_blocking_calls():
        session_id = daemon.call("session/create", cwd="/", title="x")["id"]
        daemon.call("session/update", session_id=session_id, title="y")
        daemon.call("session/get", session_id=session_id)
        daemon.call("session/list")
        daemon.call("session/messages", session_id=session_id)
        daemon.call("session/fork", session_id=session_id)
        daemon.call("session/export", session_id=session_id)
        daemon.call("session/archive", session_id=session_id)
        daemon.call("server/info")
        daemon.call("server/stats")
        daemon.call("rpc.discover")
        daemon.call("config/get")
        daemon.call("config/set", key="limits.readers", value=20)
        client_id = daemon.call("initialize", client={"name": "t", "version": "1"})["client_id"]
        with daemon.follow("?after=0", {"Ostler-Client": client_id}) as stream:
            assert stream.take(1)
            daemon.call("client/list")
        assert daemon.send_http("GET", "/metrics").status == 200
        assert daemon.send_http("GET", "/openrpc.json").status == 200
        assert daemon.send_http("GET", f"/sessions/{session_id}/export").status == 200
        assert daemon.send_http("GET", "/readyz", unix=True).status == 200
        daemon.call("session/delete", session_id=session_id)


def test_the_event_loop_is_never_busy_for_a_tenth_of_a_second_under_load(home: Path) -> None:
    stalls = StallMonitor()
    watching: list[asyncio.Task[None]] = []

    def watch(daemon: RunningDaemon) -> None:
        watching.append(asyncio.get_running_loop().create_task(stalls.watch()))

    with InProcessDaemon(home, prepare=watch) as daemon:
        session_ids = [daemon.call("session/create", cwd="/")["id"] for _ in range(4)]
        pad = os.urandom(8000).hex()

        def work(session_id: str) -> None:
            for number in range(50):
                daemon.call("session/update", session_id=session_id, metadata={"n": number, "pad": pad})
                daemon.call("session/list", limit=500)

        with daemon.follow("?after=0") as one, daemon.follow("?after=0") as two, ThreadPoolExecutor(4) as pool:
            list(pool.map(work, session_ids))
            assert len(one.take(204)) == len(two.take(204)) == 204

        async def stop() -> None:
            watching[0].cancel()

        daemon.run_on_loop(stop)
    assert 0 < stalls.longest < StallMonitor.LIMIT
