"""A daemon with scripted answers and event streams: for what a real one does only rarely."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

NOW = "2026-01-01T00:00:00.000Z"


def encode_event(kind: str, cursor: int | None, /, **data: Any) -> bytes:
    """One event as it is on the wire."""
    return _encode(kind, cursor, None, None, data)


def encode_turn_event(kind: str, cursor: int | None, /, turn_id: str | None = "t_1", **data: Any) -> bytes:
    """One event of a turn of the session `s_1`."""
    return _encode(kind, cursor, "s_1", turn_id, data)


def _encode(kind: str, cursor: int | None, session_id: str | None, turn_id: str | None, data: Any) -> bytes:
    body = {
        "cursor": cursor,
        "session_id": session_id,
        "root_id": session_id,
        "turn_id": turn_id,
        "time": NOW,
        "type": kind,
        "data": data,
    }
    head = f"id: {cursor}\n" if cursor is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


@dataclass
class ScriptedDaemon:
    """Answers calls from a table and gives one part of the script to each event stream that is opened.

    An entry of the table is a result, an error, or a coroutine function that makes one out of the params.
    """

    results: dict[str, Any] = field(default_factory=dict)
    streams: list[tuple[int, bytes]] = field(default_factory=list)
    last_event_ids: list[str | None] = field(default_factory=list)
    """The `Last-Event-ID` of each stream that was opened."""
    url: str = ""
    database_id: str = "one"
    cursor: int = 0
    """The end of its log, as it says."""
    gate: asyncio.Event | None = None
    """What the streams wait for before they say anything."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The calls that came, with their params."""

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                headers = await _read_headers(reader)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if line.startswith(b"POST /rpc"):
                    await self._handle_call(writer, json.loads(body))
                else:
                    await self._send_stream(writer, headers)
                    return
        finally:
            writer.close()

    async def _handle_call(self, writer: asyncio.StreamWriter, call: dict[str, Any]) -> None:
        self.calls.append((call["method"], call["params"]))
        found = self._find_result(call["method"])
        result: dict[str, Any] = found if isinstance(found, dict) else await found(call["params"])
        kind = "error" if "code" in result else "result"
        await _send(writer, 200, json.dumps({"jsonrpc": "2.0", "id": call["id"], kind: result}).encode())

    def _find_result(self, method: str) -> Any:
        limits = {"max_body_bytes": 1, "max_batch": 1, "max_depth": 1, "max_values": 1, "max_page": 1, "max_readers": 1}
        about = {"server": {"version": "0"}, "protocol_version": "x", "database_id": self.database_id}
        known: dict[str, Any] = {
            "initialize": {
                "client_id": "c_1",
                "capabilities": {"methods": [], "events": [], "provider": "rehearsal", "socket": None},
            },
            "server/info": {
                "pid": 1,
                "started_at": "2026-01-01T00:00:00.000Z",
                "url": self.url,
                "socket": None,
                "home": "/",
                "cursor": self.cursor,
                "model": "rehearsal",
                "provider": "rehearsal",
                "ready": True,
                "read_only": None,
            },
        }
        if method in known:
            return {**about, **known[method], "limits": limits}
        return self.results[method]

    async def _send_stream(self, writer: asyncio.StreamWriter, headers: dict[str, str]) -> None:
        self.last_event_ids.append(headers.get("last-event-id"))
        if self.gate is not None:
            await self.gate.wait()
        if not self.streams:
            await asyncio.Event().wait()  # the script is over, and the reader has nothing more to wait for
        status, body = self.streams.pop(0)
        await _send(writer, status, body, length=status != 200)


async def _read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    found: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(": ")
        found[name.lower()] = value
    return found


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, *, length: bool = True) -> None:
    size = f"content-length: {len(body)}\r\n" if length else "connection: close\r\n"
    writer.write(f"HTTP/1.1 {status} X\r\n{size}\r\n".encode() + body)
    await writer.drain()


@asynccontextmanager
async def run_scripted_daemon(*streams: tuple[int, bytes], **results: Any) -> AsyncIterator[ScriptedDaemon]:
    script = ScriptedDaemon(dict(results), list(streams))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(script.handle_connection(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
