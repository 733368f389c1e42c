"""Commit progress: who waits for a unit of work learns that it has executed and is durable before it is published."""

import asyncio
import sqlite3

import anyio
import pytest

from ostler.protocol.errors import Conflict
from ostler.protocol.events import Notice
from ostler.storage import CommitProgress, Scope, Store, Tx
from ostler.storage.repositories.events import LoggedEvent
from tests.storage.sqlite.test_writer import ignore_events, insert_key

pytestmark = pytest.mark.anyio


def append_notice(tx: Tx) -> None:
    tx.append("notice", Scope(), data=Notice(level="info", text="told"))


async def test_it_is_told_first_and_the_log_after_it(store: Store) -> None:
    order: list[str] = []
    progress = CommitProgress()

    async def wait() -> None:
        await progress.executed()
        order.append("ran")
        await progress.durable()
        order.append("written")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await store.writer.submit(append_notice, lambda appended: order.append(appended[0].type), progress=progress)
        order.append("done")
    assert order == ["ran", "written", "notice", "done"]


async def test_what_is_said_to_be_written_is_in_the_file(store: Store) -> None:
    progress = CommitProgress()
    store.writer.submit(insert_key("k1"), ignore_events, progress=progress)
    await progress.durable()
    copy = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    assert copy.execute("SELECT count(*) FROM meta WHERE key = 'k1'").fetchone() == (1,)
    copy.close()


async def test_what_was_written_later_is_told_later(store: Store) -> None:
    """The first batch is published a moment after it is durable; the second one must not overtake it."""
    cursors: list[int] = []

    def tell(appended: list[LoggedEvent]) -> None:
        cursors.extend(event.cursor for event in appended)

    units = [
        store.writer.submit(append_notice, tell, progress=CommitProgress() if number % 3 == 0 else None)
        for number in range(300)
    ]
    for unit in units:
        await asyncio.sleep(0)
        await unit
    assert cursors == list(range(1, 301))


async def test_who_is_stopped_while_waiting_takes_nothing_from_others(store: Store) -> None:
    progress = CommitProgress()
    cancelled = asyncio.create_task(progress.durable())
    waiting = asyncio.create_task(progress.durable())
    await asyncio.sleep(0)
    cancelled.cancel()
    await store.writer.submit(insert_key("k1"), ignore_events, progress=progress)
    await waiting
    assert cancelled.cancelled()
    await progress.durable()  # a later caller gets it too


async def test_what_went_wrong_is_raised_to_each_who_waits(store: Store) -> None:
    def fails(tx: Tx) -> None:
        raise Conflict("no")

    progress = CommitProgress()
    future = store.writer.submit(fails, ignore_events, progress=progress)
    await progress.executed()  # nobody is left waiting for something that never comes
    for _ in range(2):
        with pytest.raises(Conflict):
            await progress.durable()
    with pytest.raises(Conflict):
        await future
