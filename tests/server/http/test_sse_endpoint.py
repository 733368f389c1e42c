"""The event stream: where it begins, what it is about, and that it has no gap and no double."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ostler.protocol.events import SessionData
from ostler.protocol.ids import SessionId
from ostler.protocol.session import Session
from ostler.storage import Scope, Tx
from tests.support.daemon import Daemon
from tests.support.inprocess import InProcessDaemon
from tests.support.session_events import (
    build_session_shape,
    create_session,
    extract_titles,
    rename_session,
    replay_events,
)


def test_without_a_cursor_only_what_is_new_is_told(daemon: Daemon) -> None:
    create_session(daemon, title="before")
    for query in ("", "?after=now"):
        with daemon.follow(query) as stream:
            create_session(daemon, title="after")
            assert extract_titles(stream.take(1)) == ["after"]


def test_zero_is_from_the_start(daemon: Daemon) -> None:
    session_id = create_session(daemon, title="one")
    rename_session(daemon, session_id, "two", "three")
    with daemon.follow("?after=0") as stream:
        events = stream.take(3)
    assert extract_titles(events) == ["one", "two", "three"]
    assert [event["type"] for event in events] == ["session.created", "session.updated", "session.updated"]
    assert all(event["data"]["session"]["cursor"] == event["cursor"] for event in events)


def test_the_header_wins_over_the_query(daemon: Daemon) -> None:
    session_id = create_session(daemon, title="one")
    rename_session(daemon, session_id, "two", "three")
    with daemon.follow("?after=0", {"Last-Event-ID": "2"}) as stream:
        assert extract_titles(stream.take(1)) == ["three"]


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "0x1", "9" * 30, "%00", "1e3", "%D9%A1"])
def test_what_is_no_cursor_is_refused(shared_daemon: Daemon, after: str) -> None:
    answer = shared_daemon.send_http("GET", f"/events?after={after}")
    assert (answer.status, answer.json["error"]["data"]["errors"][0]["path"]) == (400, "after")


def test_an_unknown_parameter_is_refused(shared_daemon: Daemon) -> None:
    assert shared_daemon.send_http("GET", "/events?sesion=s_1").status == 400


def test_an_unknown_session_is_404(shared_daemon: Daemon) -> None:
    known = create_session(shared_daemon)
    for query in ("?session=s_none", f"?session={known}&session=s_none"):
        answer = shared_daemon.send_http("GET", f"/events{query}")
        assert (answer.status, answer.json["error"]["data"]["code"]) == (404, "session_not_found")


def test_a_cursor_from_the_future_is_a_reset_that_ends_the_stream(daemon: Daemon) -> None:
    create_session(daemon)
    with daemon.follow("?after=999") as stream:
        (event,) = list(stream.read_events())
    assert event["type"] == "stream.reset"
    assert event["data"]["cursor"] == 1
    assert event["cursor"] is None


def test_only_a_get_is_a_stream(shared_daemon: Daemon) -> None:
    assert shared_daemon.send_http("POST", "/events").status == 405
    assert shared_daemon.send_http("HEAD", "/events").status == 200


def test_cursors_grow_over_sessions_restarts_and_deletions(home: Path) -> None:
    with Daemon(home) as daemon:
        first = create_session(daemon)
        last = create_session(daemon)
        daemon.call("session/delete", session_id=last)
        newest = daemon.call("server/stats")["cursor"]
        daemon.kill()
        daemon.start()
        again = daemon.call("session/create", cwd="/")
        assert again["cursor"] == newest + 1
        rename_session(daemon, first, "later")
        assert daemon.call("session/get", session_id=first)["cursor"] == newest + 2


def test_what_is_read_live_and_what_is_replayed_are_the_same_bytes(daemon: Daemon) -> None:
    with daemon.follow() as live:
        session_id = create_session(daemon, title="one", metadata={"ü": ["🐎", None, 1.5]})
        rename_session(daemon, session_id, "two")
        frames = live.read_frames()
        seen = [next(frames) for _ in range(2)]
    with daemon.follow("?after=0") as replay:
        frames = replay.read_frames()
        assert [next(frames) for _ in range(2)] == seen


def test_readers_that_come_and_go_under_load_see_every_event_once(daemon: Daemon) -> None:
    session_ids = [create_session(daemon) for _ in range(4)]
    start = daemon.call("server/stats")["cursor"]
    each = 60

    def write(session_id: str) -> None:
        rename_session(daemon, session_id, *(str(n) for n in range(each)))

    def read(hops: int) -> list[int]:
        """Reads a little, hangs up, resumes from its last cursor, again and again."""
        seen: list[int] = []
        after = start
        while len(seen) < each * len(session_ids):
            with daemon.follow(headers={"Last-Event-ID": str(after)}) as stream:
                for event in stream.read_events():
                    seen.append(event["cursor"])
                    after = event["cursor"]
                    if len(seen) % hops == 0 or len(seen) == each * len(session_ids):
                        break
        return seen

    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(read, hops) for hops in (7, 31, 1000)]
        list(pool.map(write, session_ids))
        wanted = list(range(start + 1, start + 1 + each * len(session_ids)))
        for reader in readers:
            assert reader.result(60) == wanted


def test_a_replay_that_is_overtaken_by_new_events_has_no_gap(home: Path) -> None:
    """The database holds many pages of events, and more are written while they are sent."""
    with InProcessDaemon(home) as daemon:
        session_id = create_session(daemon)

        def many(tx: Tx) -> None:
            record = tx.sessions.get(SessionId(session_id))
            shown = Session.model_validate(build_session_shape(record, tx.next_cursor))
            for _ in range(3000):
                tx.append("session.updated", Scope(record.id, record.root_id), data=SessionData(session=shown))

        daemon.write(many, session_id)
        stop = threading.Event()

        def keep_writing() -> int:
            written = 0
            while not stop.is_set():
                rename_session(daemon, session_id, f"during {written}")
                written += 1
            return written

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(keep_writing)
            with daemon.follow(f"?session={session_id}&after=0", timeout=60) as stream:
                cursors = [event["cursor"] for event in stream.take(3050)]
            stop.set()
            writing.result(30)
        assert cursors == list(range(1, 3051))


def test_a_kill_loses_no_event_and_doubles_none(home: Path) -> None:
    with Daemon(home) as daemon:
        session_id = create_session(daemon, title="0")
        with daemon.follow("?after=0") as stream:
            rename_session(daemon, session_id, "1", "2")
            seen = stream.take(3)
            daemon.kill()
            assert list(stream.read_events()) == []
        daemon.start()
        rename_session(daemon, session_id, "3")
        with daemon.follow(headers={"Last-Event-ID": str(seen[-1]["cursor"])}) as stream:
            assert extract_titles(stream.take(1)) == ["3"]
        assert extract_titles(replay_events(daemon)) == ["0", "1", "2", "3"]


def test_a_stream_is_about_the_sessions_that_were_asked_for(daemon: Daemon) -> None:
    one, two, three = (create_session(daemon) for _ in range(3))
    with (
        daemon.follow(f"?session={one}") as only_one,
        daemon.follow(f"?session={one}&session={three}") as one_and_three,
        daemon.follow() as everything,
    ):
        for session_id in (three, two, one):
            rename_session(daemon, session_id, "x")
        assert [event["session_id"] for event in only_one.take(1)] == [one]
        assert [event["session_id"] for event in one_and_three.take(2)] == [three, one]
        assert [event["session_id"] for event in everything.take(3)] == [three, two, one]
    query = f"?session={one}&session={three}&after=0"
    with daemon.follow(query) as stream:
        assert [event["session_id"] for event in stream.take(4)] == [one, three, three, one]
