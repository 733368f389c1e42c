"""The bounded queue in front of a reader."""

import pytest

from ostler.protocol.ids import Cursor
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.frames import Frame, stored_frame
from ostler.server.events.subscriber import Reader, Watch
from ostler.storage.repositories.events import LoggedEvent

pytestmark = pytest.mark.anyio


def reader(max_events: int = 4, max_bytes: int = 1000) -> Reader:
    return Reader(Watch(), position=Cursor(0), deltas=True, max_events=max_events, max_bytes=max_bytes)


def stored(cursor: int, size: int = 10) -> Frame:
    return Frame(Cursor(cursor), "notice", None, None, b"s" * size, size)


def passing(size: int = 10) -> Frame:
    return Frame(None, "message.delta", None, None, b"d" * size, size)


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


def long(cursor: int, size: int) -> Frame:
    event = LoggedEvent(Cursor(cursor), None, None, None, "t", "notice", b"x" * size)
    return stored_frame(event)


async def test_a_long_event_is_given_away_bit_by_bit_and_in_its_place() -> None:
    one = reader(max_events=10, max_bytes=10**9)
    frames = [stored(1), long(2, 3 * CHUNK_BYTES), stored(3), long(4, 2 * CHUNK_BYTES), long(5, 10)]
    for frame in frames:
        one.offer(frame)
    taken: list[bytes] = []
    while one.queued_bytes or one.position < 5:
        chunk = await one.take()
        assert chunk is not None
        assert 0 < len(chunk) <= CHUNK_BYTES
        taken.append(chunk)
    assert b"".join(taken) == b"".join(part for frame in frames for part in frame.chunks())
    assert one.queued_bytes == 0


async def test_a_reader_that_is_cut_or_closed_in_a_long_event_gets_the_rest_of_it() -> None:
    for end in (Reader.close, Reader._cut):
        one = reader(max_bytes=10**9)
        whole = long(1, 3 * CHUNK_BYTES)
        one.offer(whole)
        taken = [await one.take() or b""]
        end(one)
        while (chunk := await one.take()) is not None:
            taken.append(chunk)
        assert b"".join(taken).startswith(b"".join(whole.chunks()))
        assert b"".join(taken).count(b"event: stream.lagged") == int(end is Reader._cut)


async def test_a_long_event_is_the_same_on_the_wire_as_a_short_one() -> None:
    for size in (CHUNK_BYTES, CHUNK_BYTES + 1):
        frame = long(7, size)
        sent = b"".join(frame.chunks())
        assert sent.startswith(b"id: 7\nevent: notice\ndata: {")
        assert sent.endswith(b'"data":' + b"x" * size + b"}\n\n")
        assert 0 <= len(sent) - frame.size < 200


async def test_what_was_in_progress_comes_first_and_is_never_dropped() -> None:
    one = reader(max_events=2, max_bytes=100)
    begun = [Frame(None, "message.delta", None, None, bytes([65 + at]) * 5000, 5000) for at in range(3)]
    one.begin(begun)
    for _ in range(10):
        one.offer(passing())
    one.offer(stored(1))
    taken = [await one.take() or b"" for _ in range(4)]
    assert taken[:3] == [frame.sse for frame in begun]
    assert taken[3].startswith((b"d", b"s"))
    assert not one.lagged


async def test_who_wants_no_deltas_is_given_none_of_what_was_in_progress() -> None:
    one = Reader(Watch(), position=Cursor(0), deltas=False, max_events=4, max_bytes=1000)
    one.begin([passing()])
    one.offer(stored(1))
    assert await one.take() == b"s" * 10


async def test_a_quiet_stream_says_something_but_never_within_an_event() -> None:
    one = reader(max_bytes=10**9)
    one.remind()
    assert await one.take() == b": still here\n\n"
    whole = long(1, 3 * CHUNK_BYTES)
    one.offer(whole)
    one.remind()  # there is something to say
    taken = [await one.take() or b""]
    one.remind()
    one.offer(stored(2))
    while not taken[-1].startswith(b"s"):
        taken.append(await one.take() or b"")
    assert b"".join(taken) == b"".join(whole.chunks()) + b": still here\n\n" + b"s" * 10


async def test_a_reader_that_is_let_go_holds_nothing() -> None:
    one = reader(max_bytes=10**9)
    one.begin([passing()])
    one.offer(long(1, 3 * CHUNK_BYTES))
    await one.take()
    one.let_go()
    assert await one.take() is None
    assert one.queued_bytes == 0
