"""The real daemon on a real port, but in this process: for tests that act as the turn engine does."""

import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ostler.protocol.places import find_places
from ostler.protocol.wire import Shape
from ostler.server.config.configuration import load_configuration
from ostler.server.config.private_files import ensure_private_folder
from ostler.server.daemon.daemon import Daemon as RunningDaemon
from ostler.server.daemon.lifecycle import open_daemon
from ostler.storage import Scope, Tx
from tests.support.daemon import Daemon

T = TypeVar("T")


@dataclass
class InProcessDaemon(Daemon):
    settings: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[RunningDaemon], None] | None = None
    """Called before it serves."""
    running: RunningDaemon = field(init=False)

    def start(self) -> Self:
        self._exits = ExitStack()
        self._portal: BlockingPortal = self._exits.enter_context(start_blocking_portal("asyncio"))
        self._served, self.running = self._portal.start_task(self._serve)
        self.url = self.running.url
        return self

    async def _serve(self, *, task_status: TaskStatus[RunningDaemon]) -> None:
        os.umask(0o077)
        places = find_places(str(self.home))
        for folder in places.folders:
            ensure_private_folder(folder)
        configuration = load_configuration(places.config_file, {"listen.port": 0, **self.settings}, self.environment)
        async with open_daemon(places, configuration) as daemon:
            if self.prepare:
                self.prepare(daemon)
            await daemon.serve(lambda: task_status.started(daemon))

    @property
    def socket_path(self) -> str:
        return str(self.running.listen_sockets.path)

    def stop(self) -> int:
        self._portal.call(self.running.stopping.set)
        self._served.result(15)
        self._exits.close()
        return 0

    def kill(self) -> None:
        self.stop()

    # What the engine does.

    def run_on_loop(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run something on the daemon's own loop."""
        return self._portal.call(action)

    def write(self, work: Callable[[Tx], T], root_id: Any = None) -> T:
        async def write_log() -> T:
            return await self.running.log.write(work, root_id)

        return self.run_on_loop(write_log)

    def publish_transient(self, kind: str, scope: Scope, data: Shape) -> None:
        async def publish() -> None:
            self.running.log.publish_transient(kind, scope, data)

        self.run_on_loop(publish)

    def run_scheduled(self) -> None:
        """Let the loop run what was scheduled before."""
        self.run_on_loop(anyio.lowlevel.checkpoint)
