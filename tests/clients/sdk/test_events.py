"""The event stream against a scripted daemon: what it does when the other side behaves oddly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ostler.clients import AccessRefused, EventStream, UnexpectedAnswer, connect
from ostler.protocol.errors import SessionNotFound
from ostler.protocol.events import Event
from tests.clients.sdk.scripted_daemon import encode_event, run_scripted_daemon

pytestmark = pytest.mark.anyio

SESSION = {
    "id": "s_1",
    "cwd": "/",
    "model": "m",
    "provider": "p",
    "mode": "default",
    "status": "idle",
    "root_id": "s_1",
    "on_ask": "ask",
    "created_at": "2026-01-01T00:00:00.000Z",
    "updated_at": "2026-01-01T00:00:00.000Z",
}


def encode_notice(cursor: int) -> bytes:
    return encode_event("notice", cursor, level="info", text="x")


def encode_delta(offset: int, text: str) -> bytes:
    return encode_event("message.delta", None, message_id="m_1", index=0, kind="text", offset=offset, text=text)


@asynccontextmanager
async def follow_script(*streams: tuple[int, bytes]) -> AsyncIterator[EventStream]:
    """A stream of everything from the start, from a daemon with this script."""
    async with (
        run_scripted_daemon(*streams) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.events(after=0) as events,
    ):
        yield events


async def take(events: EventStream, count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


async def test_a_broken_stream_goes_on_after_the_last_stored_event() -> None:
    async with (
        run_scripted_daemon((200, encode_notice(5) + encode_notice(6)), (200, encode_notice(7))) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        async with ostler.events(after=4) as events:
            assert [one.cursor for one in await take(events, 3)] == [5, 6, 7]
        assert daemon.last_event_ids == ["4", "6"]


async def test_a_stored_event_that_comes_again_is_not_told_again() -> None:
    again = encode_notice(5) + encode_notice(6) + encode_notice(7)
    async with follow_script((200, encode_notice(5) + encode_notice(6)), (200, again)) as events:
        assert [one.cursor for one in await take(events, 3)] == [5, 6, 7]


async def test_a_message_in_progress_that_is_given_again_is_told_once() -> None:
    streams = (
        (200, encode_delta(0, "Hel") + encode_delta(3, "lo")),
        (200, encode_delta(0, "Hello, ") + encode_delta(7, "you")),
    )
    async with follow_script(*streams) as events:
        assert [one.data["text"] for one in await take(events, 4)] == ["Hel", "lo", ", ", "you"]


async def test_an_event_cut_in_the_middle_is_read_from_the_next_stream() -> None:
    half = encode_notice(6)[:20]
    async with follow_script((200, encode_notice(5) + half), (200, encode_notice(6))) as events:
        assert [one.cursor for one in await take(events, 2)] == [5, 6]


async def test_a_reader_that_fell_behind_goes_on_from_the_cursor_that_it_is_told() -> None:
    lagged = encode_event("stream.lagged", None, cursor=9, reason="slow")
    async with (
        run_scripted_daemon((200, encode_notice(5) + lagged), (200, encode_notice(10))) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        async with ostler.events(after=0) as events:
            assert [one.cursor for one in await take(events, 2)] == [5, 10]
        assert daemon.last_event_ids == ["0", "9"]


async def test_a_reset_of_everything_is_told_and_goes_on_from_its_cursor() -> None:
    reset = encode_event("stream.reset", None, cursor=3, reason="unknown")
    async with run_scripted_daemon((200, reset), (200, encode_notice(4))) as daemon, connect(url=daemon.url) as ostler:
        async with ostler.events(after=99) as events:
            assert [one.type for one in await take(events, 2)] == ["stream.reset", "notice"]
        assert daemon.last_event_ids == ["99", "3"]


async def test_a_reset_of_a_session_goes_on_from_the_cursor_of_its_state() -> None:
    reset = encode_event("stream.reset", None, cursor=8, reason="unknown")
    results = {"session/get": {**SESSION, "cursor": 6}}
    async with (
        run_scripted_daemon((200, reset), (200, encode_notice(7)), **results) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        async with ostler.events("s_1", after=99) as events:
            assert [one.cursor for one in await take(events, 2)] == [None, 7]
        assert daemon.last_event_ids == ["99", "6"]


async def test_a_session_whose_own_cursor_is_not_kept_goes_on_from_the_end_of_the_log() -> None:
    reset = encode_event("stream.reset", None, cursor=8, reason="pruned")
    results = {"session/get": {**SESSION, "cursor": 2}}
    streams = (200, reset), (200, reset), (200, encode_notice(9))
    async with run_scripted_daemon(*streams, **results) as daemon, connect(url=daemon.url) as ostler:
        async with ostler.events("s_1", after=1) as events:
            assert [one.cursor for one in await take(events, 3)] == [None, None, 9]
        assert daemon.last_event_ids == ["1", "2", "8"]


async def test_another_database_is_a_reset_even_when_its_log_is_longer() -> None:
    async with (
        run_scripted_daemon((200, encode_notice(5)), (200, encode_notice(41))) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.events(after=0) as events,
    ):
        assert (await anext(events)).cursor == 5
        daemon.database_id, daemon.cursor = "two", 40
        assert [one.type for one in await take(events, 2)] == ["stream.reset", "notice"]
        assert daemon.last_event_ids == ["0", "40"]


async def test_now_is_the_place_where_the_stream_was_opened_also_after_a_break() -> None:
    async with run_scripted_daemon((200, b": hello\n\n"), (200, encode_notice(12))) as daemon:
        daemon.cursor = 11
        async with connect(url=daemon.url) as ostler, ostler.events() as events:
            daemon.cursor = 99
            assert (await anext(events)).cursor == 12
        assert daemon.last_event_ids == ["11", "11"]


async def test_a_daemon_that_has_no_room_is_asked_again() -> None:
    async with follow_script((503, b""), (503, b""), (200, encode_notice(1))) as events:
        assert (await anext(events)).cursor == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_ends_the_stream(status: int) -> None:
    async with run_scripted_daemon((status, b"")) as daemon, connect(url=daemon.url) as ostler:
        events = ostler.events(after=0)
        with pytest.raises(AccessRefused):
            await anext(events)
        assert [one async for one in events] == []


async def test_a_deleted_session_ends_the_stream() -> None:
    error = b'{"error":{"code":-32001,"message":"There is no session.","data":{"code":"session_not_found"}}}'
    async with run_scripted_daemon((200, encode_notice(1)), (404, error)) as daemon, connect(url=daemon.url) as ostler:
        events = ostler.events("s_1", after=0)
        assert (await anext(events)).cursor == 1
        with pytest.raises(SessionNotFound):
            await anext(events)


async def test_something_else_than_events_is_said_to_be_that() -> None:
    async with run_scripted_daemon((200, b"data: hello\n\n")) as daemon, connect(url=daemon.url) as ostler:
        with pytest.raises(UnexpectedAnswer, match="no event"):
            await anext(ostler.events(after=0))
