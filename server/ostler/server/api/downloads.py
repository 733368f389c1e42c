"""The FastAPI application: downloads, discovery and metrics. Loaded after the daemon is ready (see front.py)."""

from collections.abc import AsyncIterator

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ostler.protocol.errors import NotFound, ProtocolError
from ostler.protocol.ids import ResultId, SessionId
from ostler.protocol.session import ExportFormat
from ostler.server.api.export import MEDIA_TYPES, export_filename, export_lines, exported_session
from ostler.server.engine.calls.stored_results import find_result, pieces_of
from ostler.server.events.event_log import EventLog
from ostler.server.observability.metrics import Metrics
from ostler.server.rpc.discovery import discovery
from ostler.server.rpc.dispatcher import wire_error
from ostler.storage.repositories.results import ResultRecord


def build_pages(log: EventLog, metrics: Metrics, url: str) -> FastAPI:
    # Its own schema pages would be a second description of the protocol, and open to whoever has no token.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(ProtocolError, _failed)
    app.add_exception_handler(RequestValidationError, _bad_request)

    @app.get("/openrpc.json")
    async def openrpc() -> Response:
        return Response(orjson.dumps(await discovery(url)), media_type="application/json")

    @app.get("/metrics")
    def prometheus() -> Response:  # on a thread: the library reads files when it is loaded and when it counts
        body, media_type = metrics.exposition()
        return Response(body, media_type=media_type)

    @app.get("/results/{result_id}")
    async def result(result_id: ResultId) -> Response:
        record = await find_result(log, result_id)
        return StreamingResponse(
            _result_text(log, record),
            media_type=record.media_type,
            headers={"content-length": str(record.total_bytes), **_as_file(f"{record.id}.txt")},
        )

    @app.get("/sessions/{session_id}/export")
    async def export(session_id: SessionId, format: ExportFormat = "markdown") -> Response:
        session = await exported_session(log, session_id)
        return StreamingResponse(
            export_lines(log, session, format),
            media_type=MEDIA_TYPES[format],
            headers=_as_file(export_filename(session_id, format)),
        )

    return app


def _as_file(name: str) -> dict[str, str]:
    # What a tool printed may be HTML; a browser must save it and never show it as a page of ours.
    return {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}


async def _result_text(log: EventLog, record: ResultRecord) -> AsyncIterator[bytes]:
    """Where it ends early, the content-length tells the client that it is not whole."""
    async for piece in pieces_of(log, record):
        yield piece.encode()


async def _failed(request: Request, error: Exception) -> Response:
    wire = wire_error(error, request.url.path)
    status = 404 if isinstance(wire, NotFound) else 500 if wire.code == -32603 else 400
    return _error(status, wire)


async def _bad_request(request: Request, error: Exception) -> Response:
    reasons = error.errors() if isinstance(error, RequestValidationError) else []
    errors = [{"path": ".".join(map(str, one["loc"][1:])), "reason": one["msg"]} for one in reasons]
    return JSONResponse({"error": {"code": -32602, "message": "Bad request.", "data": {"errors": errors}}}, 400)


def _error(status: int, wire: ProtocolError) -> Response:
    return JSONResponse({"error": {"code": wire.code, "message": wire.message, "data": wire.data}}, status)
