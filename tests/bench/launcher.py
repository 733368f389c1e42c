"""The daemon with a producer inside it, which appends events as fast as the log takes them."""

import gc

# As the daemon itself does: what is imported is never collected.
gc.disable()

import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections import deque  # noqa: E402
from typing import Any, Final  # noqa: E402

import anyio  # noqa: E402
import anyio.to_thread  # noqa: E402

from ostler.protocol.events import MessageDelta, SessionData  # noqa: E402
from ostler.protocol.ids import new_message_id  # noqa: E402
from ostler.protocol.places import find_places  # noqa: E402
from ostler.protocol.session import Session, SessionCreate  # noqa: E402
from ostler.server.api.sessions import SessionMethods  # noqa: E402
from ostler.server.config.configuration import load_configuration  # noqa: E402
from ostler.server.config.private_files import ensure_private_folder  # noqa: E402
from ostler.server.daemon.daemon import Daemon  # noqa: E402
from ostler.server.daemon.lifecycle import open_daemon  # noqa: E402
from ostler.server.events.event_log import EventLog  # noqa: E402
from ostler.storage import Scope, Tx  # noqa: E402

_IN_FLIGHT: Final = 512
"""Transactions that wait for the disk."""
_EVENTS_PER_CHECK: Final = 64
"""Events between two checks of the readers."""
_QUEUED_BYTES: Final = 512 * 1024
"""What may wait for the slowest reader before the producer waits too: a quarter of what would cut it."""


async def _wait_for_readers(log: EventLog) -> None:
    while max((reader.queued_bytes for reader in log.subscribers), default=0) > _QUEUED_BYTES:  # noqa: ASYNC110
        # Polled: a reader does not notify the log of what it has read.
        await asyncio.sleep(0.001)


async def _append_stored(log: EventLog, session: Session, events: int) -> None:
    scope = Scope(session.id, session.root_id)
    data = SessionData(session=session)

    def unit(tx: Tx) -> None:
        tx.append("session.updated", scope, data=data)

    waiting: deque[asyncio.Future[None]] = deque()
    for number in range(events):
        waiting.append(log.submit(unit, session.root_id))
        if len(waiting) >= _IN_FLIGHT:
            await waiting.popleft()
        if number % _EVENTS_PER_CHECK == 0:
            await _wait_for_readers(log)
    for future in waiting:
        await future


async def _publish_transient(log: EventLog, session: Session, events: int) -> None:
    scope = Scope(session.id, session.root_id)
    delta = MessageDelta(message_id=new_message_id(), index=0, kind="text", offset=0, text="and the mare, ")
    for number in range(events):
        log.publish_transient("message.delta", scope, delta)
        if number % _EVENTS_PER_CHECK == 0:
            await asyncio.sleep(0)
            await _wait_for_readers(log)


async def _produce(daemon: Daemon, session: Session, order: dict[str, Any]) -> dict[str, Any]:
    work = _append_stored if order["kind"] == "stored" else _publish_transient
    counts = daemon.store.writer.counts
    commits = counts.commits
    began = time.monotonic()
    await work(daemon.log, session, order["events"])
    return {"began": began, "commits": counts.commits - commits}


async def _handle_orders(daemon: Daemon, home: str) -> None:
    sessions = SessionMethods(daemon.log, daemon.configuration, daemon.engine)
    session = await sessions.create(SessionCreate(cwd=home, title="Walk the horses"))
    await daemon.router.ensure_pages()  # loaded in the background otherwise, at the cost of what is timed
    _write({"port": daemon.listen_sockets.port})
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        _write(await _produce(daemon, session, json.loads(line)))
    daemon.stopping.set()


async def _run(home: str) -> None:
    places = find_places(home)
    for folder in places.folders:
        ensure_private_folder(folder)
    configuration = load_configuration(places.config_file, {"listen.port": 0}, {})
    async with open_daemon(places, configuration) as daemon, anyio.create_task_group() as group:
        group.start_soon(daemon.serve)
        await _handle_orders(daemon, home)


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    gc.enable()
    gc.freeze()
    asyncio.run(_run(json.loads(sys.stdin.readline())["home"]))
