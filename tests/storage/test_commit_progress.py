"""Who stands before a gate hears of a unit before everybody else: that it has run, and that the disk has it."""

import asyncio
import sqlite3

import anyio
import pytest

from ostler.protocol.errors import Conflict
from ostler.protocol.events import Notice
from ostler.storage import Ahead, Scope, Store, Tx
from ostler.storage.repositories.events import LoggedEvent
from tests.storage.sqlite.test_writer import put, quiet

pytestmark = pytest.mark.anyio


def notice(tx: Tx) -> None:
    tx.append("notice", Scope(), data=Notice(level="info", text="told"))


async def test_it_is_told_first_and_the_log_after_it(store: Store) -> None:
    order: list[str] = []
    ahead = Ahead()

    async def wait() -> None:
        await ahead.ran()
        order.append("ran")
        await ahead.written()
        order.append("written")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await store.writer.submit(notice, lambda appended: order.append(appended[0].type), ahead=ahead)
        order.append("done")
    assert order == ["ran", "written", "notice", "done"]


async def test_what_is_said_to_be_written_is_in_the_file(store: Store) -> None:
    ahead = Ahead()
    store.writer.submit(put("k1"), quiet, ahead=ahead)
    await ahead.written()
    copy = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    assert copy.execute("SELECT count(*) FROM meta WHERE key = 'k1'").fetchone() == (1,)
    copy.close()


async def test_what_was_written_later_is_told_later(store: Store) -> None:
    """The first batch is told a moment after its gate has opened; the second one must not overtake it."""
    cursors: list[int] = []

    def tell(appended: list[LoggedEvent]) -> None:
        cursors.extend(event.cursor for event in appended)

    units = [store.writer.submit(notice, tell, ahead=Ahead() if number % 3 == 0 else None) for number in range(300)]
    for unit in units:
        await asyncio.sleep(0)
        await unit
    assert cursors == list(range(1, 301))


async def test_who_is_stopped_while_waiting_takes_nothing_from_others(store: Store) -> None:
    ahead = Ahead()
    impatient = asyncio.create_task(ahead.written())
    patient = asyncio.create_task(ahead.written())
    await asyncio.sleep(0)
    impatient.cancel()
    await store.writer.submit(put("k1"), quiet, ahead=ahead)
    await patient
    assert impatient.cancelled()
    await ahead.written()  # again, by who asks later


async def test_what_went_wrong_is_raised_to_each_who_waits(store: Store) -> None:
    def fails(tx: Tx) -> None:
        raise Conflict("no")

    ahead = Ahead()
    future = store.writer.submit(fails, quiet, ahead=ahead)
    await ahead.ran()  # nobody is left waiting for something that never comes
    for _ in range(2):
        with pytest.raises(Conflict):
            await ahead.written()
    with pytest.raises(Conflict):
        await future
