"""The HTTP router: which part of the daemon a request is for.

The paths that are used most, and the probes, are answered here. Everything else belongs to the FastAPI application,
which takes as long to load as half of the rest of the daemon: it is loaded when somebody asks for one of its pages.
docs/decisions/0002-start-up.md and 0021-from-nothing-to-the-first-request.md have the numbers.
"""

from collections.abc import Callable

import anyio
import anyio.to_thread
import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.server.http.asgi import Response


class Router:
    def __init__(self, routes: dict[str, ASGIApp], load_pages: Callable[[], ASGIApp]) -> None:
        self._routes = routes
        self._load_pages = load_pages
        self._pages: ASGIApp | None = None
        self._load_lock = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._routes.get(scope["path"])
        if app is None:
            app = await self.ensure_pages()
        await app(scope, receive, send)

    async def ensure_pages(self) -> ASGIApp:
        async with self._load_lock:
            if self._pages is None:
                self._pages = await anyio.to_thread.run_sync(self._load_pages)
            return self._pages


class Probes:
    """`/healthz`: the process answers. `/readyz`: whether it can do its work, and if not, why."""

    def __init__(self, read_only: Callable[[], str | None], details: dict[str, object]) -> None:
        self._read_only = read_only
        self._details = details
        self.ready = False

    async def answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _build_response(scope, 200, {"status": "ok"})(scope, receive, send)

    async def answer_readiness(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._read_only()
        ready = self.ready and reason is None
        state: dict[str, object] = {"ready": ready, "read_only": reason}
        if scope["state"].get("known"):  # whoever has no token learns only whether it is ready
            state |= self._details
        await _build_response(scope, 200 if ready else 503, state)(scope, receive, send)


def _build_response(scope: Scope, status: int, body: dict[str, object]) -> Response:
    if scope["method"] not in {"GET", "HEAD"}:
        return Response(405, headers={"allow": "GET"})
    return Response(status, orjson.dumps(body), media_type="application/json")
