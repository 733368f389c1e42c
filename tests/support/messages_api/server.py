"""The scripted Messages API: a real server on loopback, in a thread of the test or in its own process."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from tests.support.messages_api.behaviors import WAIT_SECONDS
from tests.support.messages_api.connection import Connection
from tests.support.messages_api.script_registry import ScriptRegistry
from tests.support.messages_api.scripts import Script


class ScriptedApi(ScriptRegistry):
    """Speaks the wire format of `POST /v1/messages`, with `stream: true` and without."""

    kept_bytes: int | None = None
    """How much of a request's body is looked at; null: all of it. What comes after that is dropped as it comes."""

    def __init__(self, *scripts: Script, default: Script | None = None, strict: bool = True, keep: bool = True) -> None:
        super().__init__(*scripts, default=default, strict=strict, keep=keep)
        self.url = ""
        self.may_refuse = False
        """Set by a test that sends what the API refuses."""
        self.may_rewrite = False
        """Set by a test that changes what was sent before: a fork, a rewind."""
        self._connections: set[Connection] = set()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="scripted-api", daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to speak to this server."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "key-for-tests"}

    @property
    def open_connections(self) -> int:
        """How many clients are connected, idle ones too."""
        return len(self._connections)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(WAIT_SECONDS):
            raise TimeoutError("the scripted server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_SECONDS)

    def _run(self) -> None:
        asyncio.run(self.serve(0, self._ready.set))

    async def serve(self, port: int, ready: Callable[[], None]) -> None:
        """Listen until told to stop."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(
            lambda: Connection(self.handle, self._connections, self.kept_bytes), "127.0.0.1", port, backlog=1024
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for connection in list(self._connections):
                connection.abort()
            # An answer that is under way ends by itself when its connection is gone.
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    def stop(self) -> None:
        """For a signal handler: end `serve`."""
        self._stop.set()
