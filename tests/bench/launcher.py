"""The daemon with a producer inside it, which appends events as fast as the log takes them."""

import gc

# As the daemon itself does: what is imported stays.
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
from ostler.server.config.configuration import load_configuration  # noqa: E402
from ostler.server.config.private_files import own_folder  # noqa: E402
from ostler.server.daemon.daemon import Daemon  # noqa: E402
from ostler.server.daemon.lifecycle import open_daemon  # noqa: E402
from ostler.server.events.event_log import EventLog  # noqa: E402
from ostler.storage import Scope, Tx  # noqa: E402

_IN_FLIGHT: Final = 512
"""Units of work that wait for the disk."""
_STEP: Final = 64
"""Events between two looks at the readers."""
_QUEUED_BYTES: Final = 512 * 1024
"""What may wait for the slowest reader before the producer waits too: a quarter of what would cut it."""


async def _keep_pace(log: EventLog) -> None:
    while max((reader.queued_bytes for reader in log.readers), default=0) > _QUEUED_BYTES:  # noqa: ASYNC110
        # A look now and then: a reader does not tell the log what it has taken.
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
        if number % _STEP == 0:
            await _keep_pace(log)
    for future in waiting:
        await future


async def _say_passing(log: EventLog, session: Session, events: int) -> None:
    scope = Scope(session.id, session.root_id)
    delta = MessageDelta(message_id=new_message_id(), index=0, kind="text", offset=0, text="and the mare, ")
    for number in range(events):
        log.say("message.delta", scope, delta)
        if number % _STEP == 0:
            await asyncio.sleep(0)
            await _keep_pace(log)


async def _produce(daemon: Daemon, session: Session, order: dict[str, Any]) -> dict[str, Any]:
    work = _append_stored if order["kind"] == "stored" else _say_passing
    counts = daemon.house.store.writer.counts
    commits = counts.commits
    began = time.monotonic()
    await work(daemon.house.log, session, order["events"])
    return {"began": began, "commits": counts.commits - commits}


async def _obey(daemon: Daemon, home: str) -> None:
    session = await daemon.house.sessions.create(SessionCreate(cwd=home, title="Walk the horses"))
    await daemon.front.pages()  # loaded in the background otherwise, at the cost of what is timed
    _write({"port": daemon.listening.port})
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        _write(await _produce(daemon, session, json.loads(line)))
    daemon.stopping.set()


async def _run(home: str) -> None:
    places = find_places(home)
    for folder in places.folders:
        own_folder(folder)
    configuration = load_configuration(places.config_file, {"listen.port": 0}, {})
    async with open_daemon(places, configuration) as daemon, anyio.create_task_group() as group:
        group.start_soon(daemon.serve, lambda: None)
        await _obey(daemon, home)


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    gc.enable()
    gc.freeze()
    asyncio.run(_run(json.loads(sys.stdin.readline())["home"]))
