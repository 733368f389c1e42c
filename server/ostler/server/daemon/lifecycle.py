"""The daemon as a process: open everything, announce the address, handle signals, close."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ostler.protocol import times
from ostler.protocol.places import Places
from ostler.server.config.configuration import Configuration
from ostler.server.config.private_files import ensure_private_folder
from ostler.server.config.token_file import load_token
from ostler.server.daemon.instance import Instance, list_preferred_ports
from ostler.server.daemon.opened import Opened, find_output_folder, make_settings_places
from ostler.server.http.sockets import ListenSockets, open_sockets
from ostler.server.observability import logs
from ostler.server.settings import check_policy
from ostler.server.version import get_version
from ostler.storage import open_store

if TYPE_CHECKING:
    from ostler.server.daemon.daemon import Daemon


@contextlib.asynccontextmanager
async def open_daemon(
    places: Places,
    configuration: Configuration,
    environ: Mapping[str, str] = os.environ,
    umask: int = 0o022,
    opened: Callable[[Opened], None] = lambda opened: None,
) -> "AsyncIterator[Daemon]":
    """Open everything that a daemon needs, and build it; it is closed again in the opposite order.

    `opened` is called as soon as clients can connect. What they ask for waits in the sockets while the rest of the
    daemon is imported, and is answered when it serves.
    """
    policy = check_policy(make_settings_places(places))
    token = load_token(places.token_file)
    listen = configuration.current.listen
    path = Path(listen.socket) if listen.socket else places.socket
    preferred = () if configuration.is_set("listen.port") else list_preferred_ports(places)
    sockets = open_sockets(listen, path, preferred_ports=preferred, only_loopback=policy.forbids_remote)
    try:
        ensure_private_folder(find_output_folder(places))
        store = open_store(places.database, pending_limit=configuration.current.limits.pending_writes)
        try:
            parts = Opened(sockets, token, store, times.now(), anyio.Event())
            opened(parts)
            # Imported here: the engine, its tools and uvicorn take longer than all of the above.
            from ostler.server.daemon.wiring import assemble_daemon  # noqa: PLC0415

            yield assemble_daemon(places, configuration, parts, environ, umask)
        finally:
            await store.close()
    finally:
        sockets.close()


async def run_daemon(places: Places, configuration: Configuration, instance: Instance, umask: int) -> None:
    """Run the daemon as a process: handle signals, print the ready line, write the file that says where it is."""

    def report_ready(opened: Opened) -> None:
        _handle_signals(opened.stopping)
        instance.announce(
            version=get_version(),
            url=opened.sockets.url,
            socket=str(opened.sockets.path),
            port=opened.sockets.port,
            started=opened.started_at,
        )
        _print_ready(opened.sockets, configuration)

    async with open_daemon(places, configuration, umask=umask, opened=report_ready) as daemon:
        await daemon.serve()
    logs.log.info("stopped")


def _print_ready(sockets: ListenSockets, configuration: Configuration) -> None:
    logs.log.info(
        "ready",
        url=sockets.url,
        socket=str(sockets.path),
        version=get_version(),
        model=configuration.default_model,
    )
    # Whoever closed our stdout must not keep the daemon from starting.
    with contextlib.suppress(OSError):
        print(f"ostler ready {sockets.url}", flush=True)  # noqa: T201 - the line that scripts wait for


def _handle_signals(stopping: anyio.Event) -> None:
    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set():
            logs.log.warning("forced", signal=number.name)
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def harden_process() -> int:
    """Keep other processes out of our files and memory: a child process must not read the key from it.

    Returns the umask of the person, for commands that run in their name.
    """
    umask = os.umask(0o077)
    if sys.platform == "linux":
        pr_set_dumpable, pr_set_child_subreaper = 4, 36
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(pr_set_dumpable, 0, 0, 0, 0)
        # A child whose parent has ended becomes our child and not init's: on the socket it would look like an
        # unrelated process of the same user, which needs no token.
        prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    return umask
