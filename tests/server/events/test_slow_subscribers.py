"""Subscribers that are slow, many, late or gone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.storage import Scope, Tx
from tests.support.daemon import Daemon, EventStream, wait_until
from tests.support.inprocess import InProcessDaemon
from tests.support.rows import reach_connection
from tests.support.session_events import build_progress, create_session, extract_titles, finish_message, rename_session


def test_a_slow_reader_loses_deltas_first_and_is_cut_then_while_others_go_on(home: Path) -> None:
    settings = {"limits.queue_events": 64, "limits.queue_bytes": 65_536}
    with InProcessDaemon(home, settings=settings) as daemon:
        session_id = SessionId(create_session(daemon))
        scope = Scope(session_id, session_id)
        big = "x" * 20_000
        with daemon.follow() as slow, ThreadPoolExecutor(1) as pool:
            wait_until(lambda: len(daemon.running.log.subscribers) == 1)

            def count_updates(stream: EventStream) -> int:
                return sum(1 for _ in zip(range(200), stream.read_events(), strict=False))

            with daemon.follow() as quick:
                counted = pool.submit(count_updates, quick)
                for number in range(100):
                    daemon.publish_transient("tool.progress", scope, build_progress(big))
                    rename_session(daemon, session_id, str(number))
                assert counted.result(60) == 200  # the quick one got them all, deltas too
            for number in range(100, 2000):
                if any(reader.lagged for reader in daemon.running.log.subscribers):
                    break
                daemon.call("session/update", session_id=session_id, metadata={"n": number, "pad": big})
            else:
                pytest.fail("the slow reader was never cut")
            events = list(slow.read_events())  # it reads at last, and the daemon ends the stream
        assert events[-1]["type"] == "stream.lagged"
        stored = [event["cursor"] for event in events if event["cursor"] is not None]
        assert events[-1]["data"]["cursor"] == stored[-1]
        assert stored == list(range(stored[0], stored[-1] + 1))
        with daemon.follow(f"?after={stored[-1]}") as resumed:
            assert resumed.take(1)[0]["cursor"] == stored[-1] + 1


def test_there_is_a_limit_on_readers(home: Path) -> None:
    with Daemon(home, environment={"OSTLER_LIMITS__READERS": "2"}) as daemon:
        with daemon.follow(), daemon.follow():
            refused = daemon.send_http("GET", "/events")
            assert (refused.status, refused.json["error"]["data"]["code"]) == (503, "overloaded")
            assert refused.headers["retry-after"] == "1"
        wait_until(lambda: daemon.call("server/stats")["readers"] == 0)
        with daemon.follow() as stream:
            assert stream.status == 200


def test_readers_that_leave_are_forgotten(daemon: Daemon) -> None:
    streams = [daemon.follow() for _ in range(10)]
    wait_until(lambda: daemon.call("server/stats")["readers"] == 10)
    for stream in streams:
        stream.close()
    wait_until(lambda: daemon.call("server/stats")["readers"] == 0)


def test_old_events_are_dropped_in_time_and_a_late_reader_is_told(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = create_session(daemon, title="old")
        rename_session(daemon, session_id, "older", "oldest")

        def age(tx: Tx) -> None:
            reach_connection(tx).execute("UPDATE events SET time = '2001-01-01T00:00:00.000Z' WHERE cursor <= 2")

        daemon.write(age)

        async def tidy() -> None:
            from ostler.server.daemon.housekeeping import tidy_database

            await tidy_database(daemon.running.log, daemon.running.configuration)

        daemon.run_on_loop(tidy)
        with daemon.follow("?after=1") as stream:
            assert [event["type"] for event in stream.read_events()] == ["stream.reset"]
        for query in ("?after=0", "?after=2"):
            with daemon.follow(query) as stream:
                assert extract_titles(stream.take(1)) == ["oldest"]
        assert daemon.call("session/get", session_id=session_id)["title"] == "oldest"


def test_an_event_larger_than_the_queue_reaches_a_reader_that_keeps_up(home: Path) -> None:
    with InProcessDaemon(home, settings={"limits.queue_bytes": 65_536}) as daemon:
        session_id = create_session(daemon)
        with daemon.follow() as stream:
            finish_message(daemon, session_id, "m_1", "x" * 3_000_000)
            rename_session(daemon, session_id, "next")
            first, second = stream.take(2)
        assert len(first["data"]["message"]["content"][0]["text"]) == 3_000_000
        assert second["type"] == "session.updated"


def test_events_that_are_dropped_during_a_replay_end_it_with_a_reset(home: Path) -> None:
    from ostler.server.daemon.housekeeping import tidy_database

    with InProcessDaemon(home) as daemon:
        session_id = create_session(daemon)
        pad = "".join(str(n) for n in range(10_000))
        for number in range(300):
            daemon.call("session/update", session_id=session_id, metadata={"n": number, "pad": pad})

        def age(tx: Tx) -> None:
            reach_connection(tx).execute("UPDATE events SET time = '2001-01-01T00:00:00.000Z' WHERE cursor < 300")

        async def tidy() -> None:
            await tidy_database(daemon.running.log, daemon.running.configuration)

        with daemon.follow("?after=1", timeout=60) as stream:
            events = stream.read_events()
            first = next(events)["cursor"]
            daemon.write(age)
            daemon.run_on_loop(tidy)
            rest = list(events)  # more than the connection holds: it is read on only now
        cursors = [first, *(event["cursor"] for event in rest if event["cursor"] is not None)]
        assert cursors == list(range(2, cursors[-1] + 1))
        assert cursors[-1] < 299
        assert rest[-1]["type"] == "stream.reset"
