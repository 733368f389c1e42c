"""The floors: bare asyncio that moves the same bytes and forces the disk as often, and knows nothing else."""

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
_ROWS: Final = 500


@dataclass(slots=True)
class Floor:
    """Answers requests of one length with bytes of one length, after what had to be done for them."""

    request_bytes: int = 0
    answer: bytes = b""
    event: bytes = b""
    """What every reader gets for each request."""
    record: bytes = b""
    """What goes to the disk for each request."""
    file: int | None = None
    database: sqlite3.Connection | None = None
    query: str = ""
    """What is read for each request."""
    readers: list[asyncio.Transport] = field(default_factory=list)
    pending: list[asyncio.Transport] = field(default_factory=list)
    full: set[asyncio.Protocol] = field(default_factory=set)
    """Connections with so much to send that more has to wait."""
    room: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, transport: asyncio.Transport) -> None:
        """One request; all that come in the same round of the loop share one visit to the disk."""
        if not self.pending:
            asyncio.get_running_loop().call_soon(self._answer_all)
        self.pending.append(transport)

    def _answer_all(self) -> None:
        asked, self.pending = self.pending, []
        self.force(len(asked))
        for transport in asked:
            if self.database is not None and self.query:
                self.database.execute(self.query).fetchall()
            transport.write(self.answer)
        if self.event:
            self.spread(len(asked))

    def force(self, records: int) -> None:
        if self.file is not None:
            os.write(self.file, self.record * records)
            os.fdatasync(self.file)

    def spread(self, events: int) -> None:
        data = self.event * events
        for transport in self.readers:
            transport.write(data)

    async def produce(self, events: int, group: int) -> float:
        """Spread many events, so many to a visit to the disk, while everybody keeps up."""
        began = time.monotonic()
        for first in range(0, events, group):
            size = min(group, events - first)
            self.force(size)
            self.spread(size)
            await asyncio.sleep(0)
            await self.wait_for_room()
        return began

    async def replay(self, transport: asyncio.Transport) -> None:
        """Send every stored event to one reader."""
        assert self.database is not None
        rows = self.database.execute("SELECT cursor, session_id, time, type, data_json FROM events ORDER BY cursor")
        while page := rows.fetchmany(_ROWS):
            transport.write(b"".join(_frames(page)))
            await self.wait_for_room()

    async def wait_for_room(self) -> None:
        while self.full:
            self.room.clear()
            await self.room.wait()


def _frames(page: list[Any]) -> Iterator[bytes]:
    for cursor, session_id, moment, kind, data in page:
        line = (
            f'{{"cursor":{cursor},"session_id":"{session_id}","root_id":"{session_id}","turn_id":null,"time":"{moment}"'
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
        self._floor.full.add(self)

    def resume_writing(self) -> None:
        self._floor.full.discard(self)
        self._floor.room.set()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if data.startswith(b"GET "):
            self._follow(replay=b"after=0" in data)
            return
        self._bytes += len(data)
        while self._bytes >= self._floor.request_bytes:
            self._bytes -= self._floor.request_bytes
            self._floor.take(self._transport)

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


def _floor(order: dict[str, Any]) -> Floor:
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
    floor = _floor(order)
    server = await loop.create_server(lambda: _Connection(floor), "127.0.0.1", 0)
    _write({"port": server.sockets[0].getsockname()[1]})
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = json.loads(line)
        _write({"began": await floor.produce(told["events"], told["group"])})


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
