"""The FastAPI application: downloads, discovery and metrics. Loaded after the daemon is ready (see http/router.py)."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ostler.protocol.errors import NotFound, ProtocolError
from ostler.protocol.ids import ResultId, SessionId
from ostler.protocol.session import ExportFormat
from ostler.server.api.exports.export import MEDIA_TYPES, export_lines, make_export_filename, read_exported_session
from ostler.server.engine.calls.stored_results import find_result, read_file, read_pieces
from ostler.server.events.event_log import EventLog
from ostler.server.observability.metrics import Metrics
from ostler.server.rpc.discovery import load_openrpc
from ostler.server.rpc.dispatcher import to_wire_error
from ostler.storage.repositories.results import ResultRecord


def build_downloads_app(log: EventLog, metrics: Metrics, url: str) -> FastAPI:
    # Its own schema pages would be a second description of the protocol, and open to whoever has no token.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(Exception, _handle_error)
    app.add_exception_handler(ProtocolError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_bad_request)

    @app.get("/openrpc.json")
    async def openrpc() -> Response:
        return Response(orjson.dumps(await load_openrpc(url)), media_type="application/json")

    @app.get("/metrics")
    def prometheus() -> Response:  # on a thread: the library reads files when it is loaded and when it counts
        body, media_type = metrics.render()
        return Response(body, media_type=media_type)

    @app.get("/results/{result_id}")
    async def result(result_id: ResultId) -> Response:
        record = await find_result(log, result_id)
        return StreamingResponse(
            _stream_result(log, record),
            media_type=record.media_type,
            headers={"content-length": str(record.total_bytes), **_as_file(record.file_name or f"{record.id}.txt")},
        )

    @app.get("/sessions/{session_id}/export")
    async def export(session_id: SessionId, format: ExportFormat = "markdown") -> Response:
        session = await read_exported_session(log, session_id)
        return StreamingResponse(
            export_lines(log, session, format),
            media_type=MEDIA_TYPES[format],
            headers=_as_file(make_export_filename(session_id, format)),
        )

    return app


def _as_file(name: str) -> dict[str, str]:
    # What a tool printed may be HTML: a browser must save it, and never render it under our origin.
    # The name of a file may have any character: encoded as RFC 5987 says, for headers have no other way.
    plain = all(each.isascii() and (each.isalnum() or each in "._-") for each in name)
    named = f'filename="{name}"' if plain else f"filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": f"attachment; {named}", "x-content-type-options": "nosniff"}


async def _stream_result(log: EventLog, record: ResultRecord) -> AsyncIterator[bytes]:
    """A result in pieces. Where it ends early, the content-length shows that it is incomplete."""
    if record.file_name is not None:
        async for part in read_file(log, record):
            yield part
        return
    async for piece in read_pieces(log, record):
        yield piece.encode()


async def _handle_error(request: Request, error: Exception) -> Response:
    wire = to_wire_error(error, request.url.path)
    status = 404 if isinstance(wire, NotFound) else 500 if wire.code == -32603 else 400
    return _build_error_response(status, wire)


async def _handle_bad_request(request: Request, error: Exception) -> Response:
    reasons = error.errors() if isinstance(error, RequestValidationError) else []
    errors = [{"path": ".".join(map(str, one["loc"][1:])), "reason": one["msg"]} for one in reasons]
    return JSONResponse({"error": {"code": -32602, "message": "Bad request.", "data": {"errors": errors}}}, 400)


def _build_error_response(status: int, wire: ProtocolError) -> Response:
    return JSONResponse({"error": {"code": wire.code, "message": wire.message, "data": wire.data}}, status)
