"""The floors: a bare asyncio server that moves the same bytes and syncs the disk as often, and does nothing else."""

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BARE_START: Final = """
import asyncio, uvicorn
async def main():
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
"""What any daemon on these libraries has to do before it can say that it is ready."""

_STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: floor\n\n"
_QUEUED_BYTES: Final = 512 * 1024
_PAGE_ROWS: Final = 500


@dataclass(slots=True)
class Floor:
    """Answers requests of one length with bytes of one length, after the write and the query that each one needs."""

    request_bytes: int = 0
    answer: bytes = b""
    event: bytes = b""
    """What every reader gets for each request."""
    record: bytes = b""
    """What is written to the disk for each request."""
    file: int | None = None
    database: sqlite3.Connection | None = None
    query: str = ""
    """What is read from the database for each request."""
    readers: list[asyncio.Transport] = field(default_factory=list)
    pending: list[asyncio.Transport] = field(default_factory=list)
    paused: set[asyncio.Protocol] = field(default_factory=set)
    """Connections whose write buffers are full."""
    writable: asyncio.Event = field(default_factory=asyncio.Event)

    def queue_request(self, transport: asyncio.Transport) -> None:
        """Take one request; all that come in the same round of the event loop share one sync of the disk."""
        if not self.pending:
            asyncio.get_running_loop().call_soon(self._answer_all)
        self.pending.append(transport)

    def _answer_all(self) -> None:
        transports, self.pending = self.pending, []
        self.write_records(len(transports))
        for transport in transports:
            if self.database is not None and self.query:
                self.database.execute(self.query).fetchall()
            transport.write(self.answer)
        if self.event:
            self.broadcast(len(transports))

    def write_records(self, records: int) -> None:
        if self.file is not None:
            os.write(self.file, self.record * records)
            os.fdatasync(self.file)

    def broadcast(self, events: int) -> None:
        data = self.event * events
        for transport in self.readers:
            transport.write(data)

    async def produce(self, events: int, group: int) -> float:
        """Broadcast events, `group` of them for each sync of the disk, at the pace of the slowest reader."""
        began = time.monotonic()
        for first in range(0, events, group):
            size = min(group, events - first)
            self.write_records(size)
            self.broadcast(size)
            await asyncio.sleep(0)
            await self.wait_until_writable()
        return began

    async def replay(self, transport: asyncio.Transport) -> None:
        """Send every stored event to one reader."""
        assert self.database is not None
        rows = self.database.execute("SELECT cursor, session_id, time, type, data_json FROM events ORDER BY cursor")
        while page := rows.fetchmany(_PAGE_ROWS):
            transport.write(b"".join(_format_frames(page)))
            await self.wait_until_writable()

    async def wait_until_writable(self) -> None:
        while self.paused:
            self.writable.clear()
            await self.writable.wait()


def _format_frames(page: list[Any]) -> Iterator[bytes]:
    for cursor, session_id, timestamp, kind, data in page:
        line = (
            f'{{"cursor":{cursor},"session_id":"{session_id}","root_id":"{session_id}",'
            f'"turn_id":null,"time":"{timestamp}"'
        )
        yield f'id: {cursor}\nevent: {kind}\ndata: {line},"type":"{kind}","data":{data}}}\n\n'.encode()


class _Connection(asyncio.Protocol):
    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._bytes = 0
        self._transport: asyncio.Transport | None = None
        self._replay: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(_QUEUED_BYTES)

    def pause_writing(self) -> None:
        self._floor.paused.add(self)

    def resume_writing(self) -> None:
        self._floor.paused.discard(self)
        self._floor.writable.set()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if data.startswith(b"GET "):
            self._follow(replay=b"after=0" in data)
            return
        self._bytes += len(data)
        while self._bytes >= self._floor.request_bytes:
            self._bytes -= self._floor.request_bytes
            self._floor.queue_request(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport in self._floor.readers:
            self._floor.readers.remove(self._transport)

    def _follow(self, *, replay: bool) -> None:
        assert self._transport is not None
        self._transport.write(_STREAM_HEAD)
        if replay:
            self._replay = asyncio.get_running_loop().create_task(self._floor.replay(self._transport))
        else:
            self._floor.readers.append(self._transport)


def _build_floor(order: dict[str, Any]) -> Floor:
    length = order.get("answer_bytes", 0)
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {max(0, length - 100):063d}\r\n\r\n".encode()
    record = order.get("record_bytes", 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return Floor(
        request_bytes=order.get("request_bytes", 0),
        answer=head + b'"result"'.ljust(max(0, length - 100)),
        event=b"event: floor\ndata: ".ljust(order.get("event_bytes", 0) - 2, b"x") + b"\n\n",
        record=b"x" * record,
        file=os.open(Path(order["folder"]) / "floor.log", flags, 0o600) if record else None,
        database=sqlite3.connect(f"file:{order['database']}?mode=ro", uri=True) if "database" in order else None,
        query=order.get("query", ""),
    )


async def _serve(order: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    floor = _build_floor(order)
    server = await loop.create_server(lambda: _Connection(floor), "127.0.0.1", 0)
    _write({"port": server.sockets[0].getsockname()[1]})
    while line := await asyncio.to_thread(sys.stdin.readline):
        batch = json.loads(line)
        _write({"began": await floor.produce(batch["events"], batch["group"])})


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
