"""The bounded queue of events in front of a subscriber."""

import pytest

from ostler.protocol.ids import Cursor
from ostler.server.events.chunks import CHUNK_BYTES
from ostler.server.events.frames import Frame, build_stored_frame
from ostler.server.events.subscriber import SessionFilter, Subscriber
from ostler.storage.repositories.events import LoggedEvent

pytestmark = pytest.mark.anyio


def make_subscriber(max_events: int = 4, max_bytes: int = 1000) -> Subscriber:
    return Subscriber(SessionFilter(), position=Cursor(0), deltas=True, max_events=max_events, max_bytes=max_bytes)


def make_stored_frame(cursor: int, size: int = 10) -> Frame:
    return Frame(Cursor(cursor), "notice", None, None, b"s" * size, size)


def make_transient_frame(size: int = 10) -> Frame:
    return Frame(None, "message.delta", None, None, b"d" * size, size)


async def test_what_is_not_stored_goes_first_and_comes_again_when_there_is_room() -> None:
    subscriber = make_subscriber()
    for _ in range(5):
        subscriber.offer(make_transient_frame())
    assert not subscriber.lagged
    subscriber.offer(make_transient_frame())  # the queue is empty again
    assert await subscriber.next_chunk() == b"d" * 10
    subscriber.offer(make_stored_frame(1))
    for _ in range(10):
        subscriber.offer(make_transient_frame())
    assert not subscriber.lagged
    assert (await subscriber.next_chunk() or b"").startswith(b"s")


async def test_a_reader_with_too_many_stored_events_is_cut_and_told_where_to_go_on() -> None:
    subscriber = make_subscriber()
    subscriber.offer(make_stored_frame(1))
    await subscriber.next_chunk()
    for cursor in range(2, 8):
        subscriber.offer(make_stored_frame(cursor))
    assert subscriber.lagged
    last_chunk = await subscriber.next_chunk() or b""
    assert b"stream.lagged" in last_chunk
    assert b'"cursor":1' in last_chunk
    assert await subscriber.next_chunk() is None


async def test_what_was_replayed_is_not_queued_again() -> None:
    subscriber = make_subscriber()
    subscriber.position = Cursor(5)
    for cursor in (4, 5, 6):
        subscriber.offer(make_stored_frame(cursor))
    assert await subscriber.next_chunk() == b"s" * 10
    assert subscriber.position == 6


async def test_one_event_alone_is_never_too_large() -> None:
    subscriber = make_subscriber(max_bytes=100)
    subscriber.offer(make_stored_frame(1, 5000))
    assert not subscriber.lagged
    subscriber.offer(make_stored_frame(2, 5000))
    assert subscriber.lagged


def make_long_frame(cursor: int, size: int) -> Frame:
    event = LoggedEvent(Cursor(cursor), None, None, None, "t", "notice", b"x" * size)
    return build_stored_frame(event)


async def test_a_long_event_is_given_away_bit_by_bit_and_in_its_place() -> None:
    subscriber = make_subscriber(max_events=10, max_bytes=10**9)
    frames = [
        make_stored_frame(1),
        make_long_frame(2, 3 * CHUNK_BYTES),
        make_stored_frame(3),
        make_long_frame(4, 2 * CHUNK_BYTES),
        make_long_frame(5, 10),
    ]
    for frame in frames:
        subscriber.offer(frame)
    taken: list[bytes] = []
    while subscriber.queued_bytes or subscriber.position < 5:
        chunk = await subscriber.next_chunk()
        assert chunk is not None
        assert 0 < len(chunk) <= CHUNK_BYTES
        taken.append(chunk)
    assert b"".join(taken) == b"".join(part for frame in frames for part in frame.iter_chunks())
    assert subscriber.queued_bytes == 0


async def test_a_reader_that_is_cut_or_closed_in_a_long_event_gets_the_rest_of_it() -> None:
    for end in (Subscriber.close, Subscriber._cut_off):
        subscriber = make_subscriber(max_bytes=10**9)
        whole = make_long_frame(1, 3 * CHUNK_BYTES)
        subscriber.offer(whole)
        taken = [await subscriber.next_chunk() or b""]
        end(subscriber)
        while (chunk := await subscriber.next_chunk()) is not None:
            taken.append(chunk)
        assert b"".join(taken).startswith(b"".join(whole.iter_chunks()))
        assert b"".join(taken).count(b"event: stream.lagged") == int(end is Subscriber._cut_off)


async def test_a_long_event_is_the_same_on_the_wire_as_a_short_one() -> None:
    for size in (CHUNK_BYTES, CHUNK_BYTES + 1):
        frame = make_long_frame(7, size)
        sent = b"".join(frame.iter_chunks())
        assert sent.startswith(b"id: 7\nevent: notice\ndata: {")
        assert sent.endswith(b'"data":' + b"x" * size + b"}\n\n")
        assert 0 <= len(sent) - frame.size < 200


async def test_what_was_in_progress_comes_first_and_is_never_dropped() -> None:
    subscriber = make_subscriber(max_events=2, max_bytes=100)
    begun = [Frame(None, "message.delta", None, None, bytes([65 + at]) * 5000, 5000) for at in range(3)]
    subscriber.queue_progress_so_far(begun)
    for _ in range(10):
        subscriber.offer(make_transient_frame())
    subscriber.offer(make_stored_frame(1))
    taken = [await subscriber.next_chunk() or b"" for _ in range(4)]
    assert taken[:3] == [frame.sse for frame in begun]
    assert taken[3].startswith((b"d", b"s"))
    assert not subscriber.lagged


async def test_who_wants_no_deltas_is_given_none_of_what_was_in_progress() -> None:
    subscriber = Subscriber(SessionFilter(), position=Cursor(0), deltas=False, max_events=4, max_bytes=1000)
    subscriber.queue_progress_so_far([make_transient_frame()])
    subscriber.offer(make_stored_frame(1))
    assert await subscriber.next_chunk() == b"s" * 10


async def test_a_quiet_stream_says_something_but_never_within_an_event() -> None:
    subscriber = make_subscriber(max_bytes=10**9)
    subscriber.queue_keepalive()
    assert await subscriber.next_chunk() == b": still here\n\n"
    whole = make_long_frame(1, 3 * CHUNK_BYTES)
    subscriber.offer(whole)
    subscriber.queue_keepalive()  # there is something to say
    taken = [await subscriber.next_chunk() or b""]
    subscriber.queue_keepalive()
    subscriber.offer(make_stored_frame(2))
    while not taken[-1].startswith(b"s"):
        taken.append(await subscriber.next_chunk() or b"")
    assert b"".join(taken) == b"".join(whole.iter_chunks()) + b": still here\n\n" + b"s" * 10


async def test_a_reader_that_is_let_go_holds_nothing() -> None:
    subscriber = make_subscriber(max_bytes=10**9)
    subscriber.queue_progress_so_far([make_transient_frame()])
    subscriber.offer(make_long_frame(1, 3 * CHUNK_BYTES))
    await subscriber.next_chunk()
    subscriber.discard()
    assert await subscriber.next_chunk() is None
    assert subscriber.queued_bytes == 0
