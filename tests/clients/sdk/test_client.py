"""The SDK against a real daemon."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ostler.clients import (
    AccessRefused,
    DaemonNotRunning,
    DaemonUnreachable,
    EventStream,
    UnexpectedAnswer,
    connect,
)
from ostler.protocol.client import ClientCapabilities, ClientList
from ostler.protocol.errors import BadFolder, InvalidParams, MethodNotFound, OstlerError, SessionNotFound
from ostler.protocol.events import Event
from ostler.protocol.methods import (
    CLIENT_LIST,
    SERVER_INFO,
    SERVER_STATS,
    SESSION_ARCHIVE,
    SESSION_CREATE,
    SESSION_DELETE,
    SESSION_GET,
    SESSION_UPDATE,
)
from ostler.protocol.session import Session, SessionArchive, SessionCreate, SessionRef, SessionUpdate
from tests.clients.sdk.scripted_daemon import run_scripted_daemon
from tests.support.daemon import Daemon

pytestmark = pytest.mark.anyio


def get_folder(home: Path) -> str:
    return str(home.parent)


async def test_a_call_gives_a_typed_result(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home), title="first"))
        assert isinstance(session, Session)
        assert (session.title, session.cwd) == ("first", get_folder(daemon.home))
        assert (await ostler.call(SERVER_INFO)).pid == daemon.pid


async def test_only_the_fields_that_were_given_are_changed(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home), title="kept"))
        changed = await ostler.call(SESSION_UPDATE, SessionUpdate(session_id=session.id, mode="plan"))
        assert (changed.title, changed.mode) == ("kept", "plan")


async def test_a_raw_request_takes_and_gives_json(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        assert await ostler.request("session/list") == {"sessions": [], "next": None}


async def test_a_wrong_id_is_the_error_of_the_protocol(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        with pytest.raises(SessionNotFound, match="'s_none'") as caught:
            await ostler.call(SESSION_GET, SessionRef.model_validate({"session_id": "s_none"}))
        assert caught.value.data["code"] == "session_not_found"


async def test_each_refusal_is_its_own_exception(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        with pytest.raises(BadFolder):
            await ostler.call(SESSION_CREATE, SessionCreate(cwd="relative"))
        with pytest.raises(InvalidParams, match="cwd"):
            await ostler.request("session/create", {"cwd": 7})
        with pytest.raises(MethodNotFound):
            await ostler.request("no/such")


async def test_the_socket_needs_no_token(daemon: Daemon) -> None:
    (daemon.home / "token").unlink()
    async with connect(str(daemon.home)) as ostler:
        assert (await ostler.call(SERVER_INFO)).pid == daemon.pid


async def test_without_a_socket_the_token_opens_the_door(daemon: Daemon) -> None:
    os.unlink(daemon.socket_path)
    async with connect(str(daemon.home)) as ostler:
        assert (await ostler.call(SERVER_INFO)).pid == daemon.pid


async def test_an_address_and_a_token_can_be_given(daemon: Daemon) -> None:
    async with connect(url=daemon.url, token=daemon.token) as ostler:
        assert (await ostler.call(SERVER_INFO)).url == daemon.url


@pytest.mark.parametrize("token", [None, "x" * 43])
async def test_a_wrong_or_missing_token_is_refused(daemon: Daemon, token: str | None) -> None:
    with pytest.raises(AccessRefused, match="token"):
        async with connect(url=daemon.url, token=token):
            pass


async def test_a_proxy_of_the_environment_never_sees_a_loopback_call(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with connect(url=daemon.url, token=daemon.token) as ostler:
        assert (await ostler.call(SERVER_INFO)).pid == daemon.pid


@pytest.mark.without_daemon
async def test_no_daemon_is_said_with_what_to_do(home: Path) -> None:
    with pytest.raises(DaemonNotRunning, match="ostler start"):
        async with connect(str(home)):
            pass


async def test_a_daemon_that_died_is_unreachable(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        await to_thread.run_sync(daemon.kill)
        with pytest.raises(DaemonUnreachable, match="ostler start"):
            await ostler.call(SERVER_INFO)
    with pytest.raises(DaemonUnreachable, match="ostler start"):
        async with connect(str(daemon.home)):
            pass


async def test_the_token_is_not_sent_to_whoever_has_the_port_of_a_dead_daemon(daemon: Daemon) -> None:
    await to_thread.run_sync(daemon.kill)
    os.unlink(daemon.socket_path)
    with pytest.raises(DaemonNotRunning, match="is gone"):
        async with connect(str(daemon.home)):
            pass


@pytest.mark.without_daemon
async def test_whoever_is_no_daemon_is_said_to_be_that() -> None:
    async with run_scripted_daemon((404, b"<h1>Not here</h1>")) as other:
        with pytest.raises(UnexpectedAnswer, match="HTTP 404: <h1>Not here"):
            async with connect(url=f"{other.url}/elsewhere"):
                pass


async def test_a_call_finds_a_daemon_that_came_back_on_another_port(daemon: Daemon) -> None:
    os.unlink(daemon.socket_path)
    async with connect(str(daemon.home)) as ostler:
        before = (await ostler.call(SERVER_INFO)).url
        await to_thread.run_sync(daemon.kill)
        await to_thread.run_sync(daemon.start)
        os.unlink(daemon.socket_path)
        after = (await ostler.call(SERVER_INFO)).url
    assert (before, after) == (before, daemon.url)
    assert before != after


async def test_a_client_with_a_stream_is_seen_by_the_others(daemon: Daemon) -> None:
    async with connect(str(daemon.home), name="watcher", version="7", kind="ci") as ostler, ostler.events():
        (client,) = (await ostler.call(CLIENT_LIST, ClientList())).clients
    assert (client.name, client.version, client.kind, client.attached) == ("watcher", "7", "ci", True)
    assert client.id == ostler.daemon.client_id


async def test_capabilities_are_told_to_the_daemon(daemon: Daemon) -> None:
    wishes = ClientCapabilities(deltas=False)
    async with connect(str(daemon.home), capabilities=wishes) as ostler, ostler.events():
        (client,) = (await ostler.call(CLIENT_LIST, ClientList())).clients
    assert client.capabilities["deltas"] is False


async def test_events_are_those_of_the_session_from_its_first(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        create = SessionCreate(cwd=get_folder(daemon.home))
        session, other = [await ostler.call(SESSION_CREATE, create) for _ in range(2)]
        await ostler.call(SESSION_ARCHIVE, SessionArchive(session_id=other.id))
        await ostler.call(SESSION_ARCHIVE, SessionArchive(session_id=session.id))
        async with ostler.events(session.id, after=0) as events:
            got = [await anext(events) for _ in range(2)]
        assert [one.type for one in got] == ["session.created", "session.updated"]
        assert {one.session_id for one in got} == {session.id}
        assert events.cursor == got[-1].cursor


async def test_what_happens_after_a_stream_was_opened_is_in_it(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler, ostler.events() as events:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home)))
        while (event := await anext(events)).type != "session.created":
            assert event.type.startswith("client.")
        assert event.session_id == session.id


async def test_several_sessions_can_be_followed_at_once(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        create = SessionCreate(cwd=get_folder(daemon.home))
        first, second, _ = [await ostler.call(SESSION_CREATE, create) for _ in range(3)]
        async with ostler.events([first.id, second.id], after=0) as events:
            assert [(await anext(events)).session_id for _ in range(2)] == [first.id, second.id]


async def test_waiting_for_an_event_can_be_given_up_and_taken_up_again(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler, ostler.events() as events:
        with anyio.move_on_after(0.05) as scope:
            while True:
                await anext(events)
        assert scope.cancelled_caught
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home)))
        assert (await wait_for_event(events, "session.created")).session_id == session.id


async def test_a_cursor_from_the_future_is_told_as_a_reset(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler, ostler.events(after=10**9) as events:
        assert (await anext(events)).type == "stream.reset"
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home)))
        assert (await wait_for_event(events, "session.created")).session_id == session.id


async def test_following_an_unknown_session_fails(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        with pytest.raises(SessionNotFound, match="s_none"):
            await anext(ostler.events("s_none"))


@pytest.fixture
def impatient_daemon(home: Path) -> Iterator[Daemon]:
    """A daemon that keeps very little for a slow reader."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[limits]\nqueue_events = 16\nqueue_bytes = 65536\n")
    with Daemon(home) as running:
        yield running


async def test_a_reader_that_was_cut_for_being_slow_still_gets_everything(impatient_daemon: Daemon) -> None:
    home = impatient_daemon.home
    async with connect(str(home)) as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(home)))
        async with ostler.events(session.id, after=session.cursor) as events:
            for number in range(150):
                metadata = {"number": number, "filler": "x" * 60_000}
                await ostler.call(SESSION_UPDATE, SessionUpdate(session_id=session.id, metadata=metadata))
            got = [await wait_for_event(events, "session.updated") for _ in range(150)]
        assert (await ostler.call(SERVER_STATS)).readers_cut > 0
    assert [one.data["session"]["metadata"]["number"] for one in got] == list(range(150))


async def test_an_export_comes_in_chunks(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home), title="to keep"))
        async with ostler.export(session.id, "markdown") as chunks:
            text = b"".join([chunk async for chunk in chunks]).decode()
        assert text.startswith("# to keep\n")
        with pytest.raises(SessionNotFound):
            async with ostler.export("../s_none"):
                pass


async def test_a_deleted_session_is_gone(daemon: Daemon) -> None:
    async with connect(str(daemon.home)) as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=get_folder(daemon.home)))
        gone = await ostler.call(SESSION_DELETE, SessionRef(session_id=session.id))
        assert gone.session_ids == [session.id]
        with pytest.raises(OstlerError):
            await ostler.call(SESSION_GET, SessionRef(session_id=session.id))


async def wait_for_event(events: EventStream, kind: str) -> Event:
    async for event in events:
        if event.type == kind:
            return event
    raise AssertionError(f"the stream ended before {kind}")
