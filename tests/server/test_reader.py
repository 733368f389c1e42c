"""The bounded queue in front of a reader."""

import pytest

from ostler.protocol.ids import Cursor
from ostler.server.frames import Frame
from ostler.server.reader import Reader, Watch

pytestmark = pytest.mark.anyio


def reader(max_events: int = 4, max_bytes: int = 1000) -> Reader:
    return Reader(Watch(), position=Cursor(0), deltas=True, max_events=max_events, max_bytes=max_bytes)


def stored(cursor: int, size: int = 10) -> Frame:
    return Frame(Cursor(cursor), "notice", None, None, b"s" * size)


def passing(size: int = 10) -> Frame:
    return Frame(None, "message.delta", None, None, b"d" * size)


async def test_what_is_not_stored_goes_first_and_comes_again_when_there_is_room() -> None:
    one = reader()
    for _ in range(5):
        one.offer(passing())
    assert not one.lagged
    one.offer(passing())  # the queue is empty again
    assert await one.take() == b"d" * 10
    one.offer(stored(1))
    for _ in range(10):
        one.offer(passing())
    assert not one.lagged
    assert (await one.take() or b"").startswith(b"s")


async def test_a_reader_with_too_many_stored_events_is_cut_and_told_where_to_go_on() -> None:
    one = reader()
    one.offer(stored(1))
    await one.take()
    for cursor in range(2, 8):
        one.offer(stored(cursor))
    assert one.lagged
    farewell = await one.take() or b""
    assert b"stream.lagged" in farewell
    assert b'"cursor":1' in farewell
    assert await one.take() is None


async def test_what_was_replayed_is_not_queued_again() -> None:
    one = reader()
    one.position = Cursor(5)
    for cursor in (4, 5, 6):
        one.offer(stored(cursor))
    assert await one.take() == b"s" * 10
    assert one.position == 6


async def test_one_event_alone_is_never_too_large() -> None:
    one = reader(max_bytes=100)
    one.offer(stored(1, 5000))
    assert not one.lagged
    one.offer(stored(2, 5000))
    assert one.lagged
