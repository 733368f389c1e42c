"""The six promises of the event stream, on the wire."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol import times
from ostler.protocol.events import MessageData, MessageDelta, SessionData, ToolProgress
from ostler.protocol.ids import MessageId, SessionId
from ostler.protocol.session import Session, SessionRef
from ostler.protocol.shapes import Ask, Call, Message
from ostler.storage import Scope, Tx, asks, calls, messages, sessions
from tests.daemon import Daemon, EventStream, wait_until
from tests.inprocess import InProcessDaemon


def create(daemon: Daemon, **params: Any) -> str:
    return str(daemon.call("session/create", cwd="/", **params)["id"])


def rename(daemon: Daemon, session_id: str, *titles: str) -> None:
    for title in titles:
        daemon.call("session/update", session_id=session_id, title=title)


def titles(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["session"]["title"] for event in events]


def replayed(daemon: Daemon, query: str = "?after=0") -> list[dict[str, Any]]:
    """Everything that is stored; a last event of our own tells where it ends."""
    marker = create(daemon, title="the end")
    found: list[dict[str, Any]] = []
    with daemon.follow(query) as stream:
        for event in stream.events():
            if event["session_id"] == marker:
                break
            found.append(event)
    daemon.call("session/delete", session_id=marker)
    return found


# Where a stream begins.


def test_without_a_cursor_only_what_is_new_is_told(daemon: Daemon) -> None:
    create(daemon, title="before")
    for query in ("", "?after=now"):
        with daemon.follow(query) as stream:
            create(daemon, title="after")
            assert titles(stream.take(1)) == ["after"]


def test_zero_is_from_the_start(daemon: Daemon) -> None:
    session_id = create(daemon, title="one")
    rename(daemon, session_id, "two", "three")
    with daemon.follow("?after=0") as stream:
        events = stream.take(3)
    assert titles(events) == ["one", "two", "three"]
    assert [event["type"] for event in events] == ["session.created", "session.updated", "session.updated"]
    assert all(event["data"]["session"]["cursor"] == event["cursor"] for event in events)


def test_the_header_wins_over_the_query(daemon: Daemon) -> None:
    session_id = create(daemon, title="one")
    rename(daemon, session_id, "two", "three")
    with daemon.follow("?after=0", {"Last-Event-ID": "2"}) as stream:
        assert titles(stream.take(1)) == ["three"]


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "0x1", "9" * 30, "%00", "1e3", "%D9%A1"])
def test_what_is_no_cursor_is_refused(shared_daemon: Daemon, after: str) -> None:
    answer = shared_daemon.http("GET", f"/events?after={after}")
    assert (answer.status, answer.json["error"]["data"]["errors"][0]["path"]) == (400, "after")


def test_an_unknown_parameter_is_refused(shared_daemon: Daemon) -> None:
    assert shared_daemon.http("GET", "/events?sesion=s_1").status == 400


def test_an_unknown_session_is_404(shared_daemon: Daemon) -> None:
    known = create(shared_daemon)
    for query in ("?session=s_none", f"?session={known}&session=s_none"):
        answer = shared_daemon.http("GET", f"/events{query}")
        assert (answer.status, answer.json["error"]["data"]["code"]) == (404, "session_not_found")


def test_a_cursor_from_the_future_is_a_reset_that_ends_the_stream(daemon: Daemon) -> None:
    create(daemon)
    with daemon.follow("?after=999") as stream:
        (event,) = list(stream.events())
    assert event["type"] == "stream.reset"
    assert event["data"]["cursor"] == 1
    assert event["cursor"] is None


def test_only_a_get_is_a_stream(shared_daemon: Daemon) -> None:
    assert shared_daemon.http("POST", "/events").status == 405
    assert shared_daemon.http("HEAD", "/events").status == 200


# Promise 1 and 4: one order, no gap, no double.


def test_cursors_grow_over_sessions_restarts_and_deletions(home: Path) -> None:
    with Daemon(home) as daemon:
        first = create(daemon)
        last = create(daemon)
        daemon.call("session/delete", session_id=last)
        newest = daemon.call("server/stats")["cursor"]
        daemon.kill()
        daemon.start()
        again = daemon.call("session/create", cwd="/")
        assert again["cursor"] == newest + 1
        rename(daemon, first, "later")
        assert daemon.call("session/get", session_id=first)["cursor"] == newest + 2


def test_what_is_read_live_and_what_is_replayed_are_the_same_bytes(daemon: Daemon) -> None:
    with daemon.follow() as live:
        session_id = create(daemon, title="one", metadata={"ü": ["🐎", None, 1.5]})
        rename(daemon, session_id, "two")
        frames = live.frames()
        seen = [next(frames) for _ in range(2)]
    with daemon.follow("?after=0") as replay:
        frames = replay.frames()
        assert [next(frames) for _ in range(2)] == seen


def test_readers_that_come_and_go_under_load_see_every_event_once(daemon: Daemon) -> None:
    session_ids = [create(daemon) for _ in range(4)]
    start = daemon.call("server/stats")["cursor"]
    each = 60

    def write(session_id: str) -> None:
        rename(daemon, session_id, *(str(n) for n in range(each)))

    def read(hops: int) -> list[int]:
        """Reads a little, hangs up, resumes from its last cursor, again and again."""
        seen: list[int] = []
        after = start
        while len(seen) < each * len(session_ids):
            with daemon.follow(headers={"Last-Event-ID": str(after)}) as stream:
                for event in stream.events():
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
        session_id = create(daemon)

        def many(tx: Tx) -> None:
            record = sessions.get(tx.connection, SessionId(session_id))
            shown = Session.model_validate(daemon_shape(record, tx.next_cursor))
            for _ in range(3000):
                tx.append("session.updated", Scope(record.id, record.root_id), data=SessionData(session=shown))

        daemon.write(many, session_id)
        stop = threading.Event()

        def keep_writing() -> int:
            written = 0
            while not stop.is_set():
                rename(daemon, session_id, f"during {written}")
                written += 1
            return written

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(keep_writing)
            with daemon.follow(f"?session={session_id}&after=0", timeout=60) as stream:
                cursors = [event["cursor"] for event in stream.take(3050)]
            stop.set()
            writing.result(30)
        assert cursors == list(range(1, 3051))


def daemon_shape(record: sessions.SessionRecord, cursor: int) -> dict[str, Any]:
    from ostler.protocol.ids import Cursor
    from ostler.server.sessions import session_shape

    return session_shape(record, Cursor(cursor)).model_dump()


def test_a_kill_loses_no_event_and_doubles_none(home: Path) -> None:
    with Daemon(home) as daemon:
        session_id = create(daemon, title="0")
        with daemon.follow("?after=0") as stream:
            rename(daemon, session_id, "1", "2")
            seen = stream.take(3)
            daemon.kill()
            assert list(stream.events()) == []
        daemon.start()
        rename(daemon, session_id, "3")
        with daemon.follow(headers={"Last-Event-ID": str(seen[-1]["cursor"])}) as stream:
            assert titles(stream.take(1)) == ["3"]
        assert titles(replayed(daemon)) == ["0", "1", "2", "3"]


# Which sessions a stream is about.


def test_a_stream_is_about_the_sessions_that_were_asked_for(daemon: Daemon) -> None:
    one, two, three = (create(daemon) for _ in range(3))
    with (
        daemon.follow(f"?session={one}") as only_one,
        daemon.follow(f"?session={one}&session={three}") as one_and_three,
        daemon.follow() as everything,
    ):
        for session_id in (three, two, one):
            rename(daemon, session_id, "x")
        assert [event["session_id"] for event in only_one.take(1)] == [one]
        assert [event["session_id"] for event in one_and_three.take(2)] == [three, one]
        assert [event["session_id"] for event in everything.take(3)] == [three, two, one]
    query = f"?session={one}&session={three}&after=0"
    with daemon.follow(query) as stream:
        assert [event["session_id"] for event in stream.take(4)] == [one, three, three, one]


def make_agent(daemon: InProcessDaemon, parent_id: str, agent_id: str) -> str:
    """A session that works for another, as the engine will make them."""
    from dataclasses import replace

    def work(tx: Tx) -> None:
        parent = sessions.get(tx.connection, SessionId(parent_id))
        agent = replace(parent, id=SessionId(agent_id), parent_id=parent.id)
        sessions.put(tx.connection, agent)
        shown = Session.model_validate(daemon_shape(agent, tx.next_cursor))
        tx.append("session.created", Scope(agent.id, agent.root_id), data=SessionData(session=shown))

    daemon.write(work, parent_id)
    return agent_id


def test_a_sessions_stream_includes_its_agents_and_theirs(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create(daemon)
        early = make_agent(daemon, root, "s_early")
        other = make_agent(daemon, root, "s_other")
        with (
            daemon.follow(f"?session={root}&after=0") as whole,
            daemon.follow(f"?session={early}&after=0") as branch,
        ):
            late = make_agent(daemon, early, "s_late")
            for session_id in (root, other, late):
                rename(daemon, session_id, "x")
            assert [event["session_id"] for event in whole.take(7)] == [root, early, other, late, root, other, late]
            assert [event["session_id"] for event in branch.take(3)] == [early, late, late]
        gone = daemon.call("session/delete", session_id=root)["session_ids"]
        assert set(gone) == {root, early, other, late}
        assert [event["type"] for event in replayed(daemon)] == ["session.deleted"] * 4


# Promise 2 and 3: what is not stored, and its order.


def start_message(daemon: InProcessDaemon, session_id: str, message_id: str) -> None:
    message = Message.model_validate(
        {"id": message_id, "session_id": session_id, "role": "assistant", "content": [], "created_at": times.now()}
    )

    def work(tx: Tx) -> None:
        scope = Scope(SessionId(session_id), SessionId(session_id))
        tx.append("message.started", scope, data=MessageData(message=message))

    daemon.write(work, session_id)


def delta(message_id: str, offset: int, text: str, index: int = 0) -> MessageDelta:
    return MessageDelta(message_id=MessageId(message_id), index=index, kind="text", offset=offset, text=text)


def test_what_is_not_stored_has_no_id_and_says_what_came_before(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create(daemon))
        with daemon.follow() as stream:
            daemon.say("message.delta", Scope(session_id, session_id), delta("m_1", 0, "hello"))
            (frame,) = [next(stream.frames())]
        event = json.loads(frame["data"])
        assert "id" not in frame
        assert (event["cursor"], event["after"], event["data"]["text"]) == (None, 1, "hello")
        assert [event["type"] for event in replayed(daemon)] == ["session.created"]


def test_a_delta_made_after_a_stored_event_is_sent_after_it(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        with daemon.follow() as stream:

            async def write_and_say() -> None:
                """Without waiting for the disk in between."""
                log = daemon.running.house.log
                pending = []
                for number in range(20):
                    log.say("message.delta", scope, delta("m_1", number, f"{number}a"))
                    pending.append(log.submit(lambda tx: note(tx, scope), session_id))
                    log.say("message.delta", scope, delta("m_1", number, f"{number}b"))
                for one in pending:
                    await one

            daemon.do(write_and_say)
            events = stream.take(60)
        said = [event["data"].get("text", "stored") for event in events]
        assert said == [word for n in range(20) for word in (f"{n}a", "stored", f"{n}b")]
        for before, after in pairwise(events):
            if before["type"] == "notice" and after["type"] == "message.delta":
                assert after["after"] == before["cursor"]


def note(tx: Tx, scope: Scope) -> None:
    from ostler.protocol.events import Notice

    tx.append("notice", scope, data=Notice(level="info", text="stored"))


def first_deltas(stream: EventStream, count: int) -> list[dict[str, Any]]:
    deltas = (event for event in stream.events() if event["type"] == "message.delta")
    return [next(deltas) for _ in range(count)]


def test_a_message_in_progress_is_given_again_from_its_start(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        start_message(daemon, session_id, "m_1")
        for offset, text in ((0, "Hel"), (3, "lo"), (5, ", 🐎")):
            daemon.say("message.delta", scope, delta("m_1", offset, text))
        daemon.say("message.delta", scope, delta("m_1", 0, "second block", index=1))
        shown = daemon.call("session/get", session_id=session_id)
        assert [block["text"] for block in shown["message"]["content"]] == ["Hello, 🐎", "second block"]
        text = "Hello, 🐎"
        for query in ("?after=0", f"?session={session_id}&after={shown['cursor']}", "?after=now"):
            with daemon.follow(query) as stream:
                deltas = [event["data"] for event in first_deltas(stream, 2)]
                assert [(one["index"], one["offset"]) for one in deltas] == [(0, 0), (1, 0)]
                assert [one["text"] for one in deltas] == [text, "second block"]
                daemon.say("message.delta", scope, delta("m_1", len(text), "!"))
                assert stream.take(1)[0]["data"]["text"] == "!"
            text += "!"
        finish_message(daemon, session_id, "m_1", text)
        assert daemon.call("session/get", session_id=session_id)["message"] is None
        with daemon.follow("?after=now") as stream:
            rename(daemon, session_id, "next")
            assert [event["type"] for event in stream.take(1)] == ["session.updated"]


def message_shape(session_id: str, message_id: str, text: str) -> Message:
    return Message.model_validate(
        {
            "id": message_id,
            "session_id": session_id,
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "created_at": times.now(),
        }
    )


def finish_message(daemon: InProcessDaemon, session_id: str, message_id: str, text: str) -> None:
    scope = Scope(SessionId(session_id), SessionId(session_id))
    message = message_shape(session_id, message_id, text)
    daemon.write(lambda tx: complete(tx, scope, message), session_id)


def test_a_client_can_do_without_deltas(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        client = {"client": {"name": "quiet", "version": "1"}, "capabilities": {"deltas": False}}
        client_id = daemon.call("initialize", **client)["client_id"]
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        with daemon.follow(f"?session={session_id}", {"Ostler-Client": client_id}) as stream:
            assert stream.take(1)[0]["type"] == "client.attached"
            daemon.say("message.delta", scope, delta("m_1", 0, "not this"))
            rename(daemon, session_id, "but this")
            assert stream.take(1)[0]["type"] == "session.updated"


# What a line refers to is filled in.


def test_lines_that_refer_are_filled_in_as_they_were_then(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        call = Call.model_validate(
            {
                "call_id": "m_1#0",
                "tool_use_id": "toolu_1",
                "session_id": session_id,
                "tool": "Bash",
                "input": {"command": "true"},
                "status": "queued",
            }
        )
        done = call.model_copy(update={"status": "completed", "output": {"stdout": "x"}, "duration_ms": 3})
        ask = Ask.model_validate(
            {
                "id": "k_1",
                "session_id": session_id,
                "root_id": session_id,
                "kind": "permission",
                "status": "open",
                "choices": ["allow", "deny"],
                "opened_at": times.now(),
            }
        )
        answered = ask.model_copy(update={"status": "resolved", "answer": {"choice": "allow"}, "answered_by": "c_1"})

        def open_all(tx: Tx) -> None:
            calls.put(tx.connection, call)
            tx.append("tool.queued", scope, reference="m_1#0")
            asks.open_ask(tx.connection, ask)
            tx.append("ask.opened", scope, reference="k_1")

        def settle(tx: Tx) -> bool:
            settled = asks.settle(tx.connection, answered)
            if settled:
                tx.append("ask.resolved", scope, reference="k_1")
                calls.put(tx.connection, done)
                tx.append("tool.completed", scope, reference="m_1#0")
            return settled

        with daemon.follow() as live:
            daemon.write(open_all, session_id)
            assert [one["id"] for one in daemon.call("session/get", session_id=session_id)["asks"]] == ["k_1"]
            assert (daemon.write(settle, session_id), daemon.write(settle, session_id)) == (True, False)
            frames = live.frames()
            seen = [next(frames) for _ in range(4)]
        finish_message(daemon, session_id, "m_9", "whole")
        with daemon.follow("?after=1") as replay:
            frames = replay.frames()
            again = [next(frames) for _ in range(5)]
        assert again[:4] == seen
        events = [json.loads(frame["data"]) for frame in again]
        assert [event["data"].get("ask", event["data"].get("call", {})).get("status") for event in events] == [
            "queued",
            "open",
            "resolved",
            "completed",
            None,
        ]
        assert events[4]["data"]["message"]["content"] == [{"type": "text", "text": "whole"}]
        assert daemon.call("session/get", session_id=session_id)["asks"] == []


# Promise 5: slow readers.


def test_a_slow_reader_loses_deltas_first_and_is_cut_then_while_others_go_on(home: Path) -> None:
    settings = {"limits.queue_events": 64, "limits.queue_bytes": 65_536}
    with InProcessDaemon(home, settings=settings) as daemon:
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        big = "x" * 20_000
        with daemon.follow() as slow, ThreadPoolExecutor(1) as pool:
            wait_until(lambda: len(daemon.running.house.log.readers) == 1)

            def count_updates(stream: EventStream) -> int:
                return sum(1 for _ in zip(range(200), stream.events(), strict=False))

            with daemon.follow() as quick:
                counted = pool.submit(count_updates, quick)
                for number in range(100):
                    daemon.say("tool.progress", scope, progress(big))
                    rename(daemon, session_id, str(number))
                assert counted.result(60) == 200  # the quick one got them all, deltas too
            for number in range(100, 2000):
                if any(reader.lagged for reader in daemon.running.house.log.readers):
                    break
                daemon.call("session/update", session_id=session_id, metadata={"n": number, "pad": big})
            else:
                pytest.fail("the slow reader was never cut")
            events = list(slow.events())  # it reads at last, and the daemon ends the stream
        assert events[-1]["type"] == "stream.lagged"
        stored = [event["cursor"] for event in events if event["cursor"] is not None]
        assert events[-1]["data"]["cursor"] == stored[-1]
        assert stored == list(range(stored[0], stored[-1] + 1))
        with daemon.follow(f"?after={stored[-1]}") as resumed:
            assert resumed.take(1)[0]["cursor"] == stored[-1] + 1


def progress(text: str) -> ToolProgress:
    from ostler.protocol.ids import CallId

    return ToolProgress(call_id=CallId("m_1#0"), kind="shell", elapsed_ms=1, data={"output": text})


def test_there_is_a_limit_on_readers(home: Path) -> None:
    with Daemon(home, environment={"OSTLER_LIMITS__READERS": "2"}) as daemon:
        with daemon.follow(), daemon.follow():
            refused = daemon.http("GET", "/events")
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


# Presence.


def test_who_attaches_is_seen_by_the_others(daemon: Daemon) -> None:
    session_id = create(daemon)
    client = {"name": "vim", "version": "9", "kind": "ide"}
    introduced = daemon.call("initialize", client=client, capabilities={"answers": ["permission"]})
    assert introduced["protocol_version"]
    assert introduced["limits"]["max_batch"] == 50
    identity = {"Ostler-Client": introduced["client_id"]}
    with daemon.follow(f"?session={session_id}") as other:
        with daemon.follow(f"?session={session_id}", identity):
            (attached,) = other.take(1)
            assert attached["type"] == "client.attached"
            assert attached["data"]["client"]["name"] == "vim"
            (listed,) = daemon.call("client/list", session_id=session_id)["clients"]
            assert (listed["id"], listed["kind"], listed["session_ids"]) == (
                introduced["client_id"],
                "ide",
                [session_id],
            )
        assert other.until("client.detached")["data"]["client"]["attached"] is False
    assert daemon.call("client/list")["clients"] == []


def test_a_client_is_still_known_after_a_restart_and_a_stranger_is_served(home: Path) -> None:
    with Daemon(home) as daemon:
        client_id = daemon.call("initialize", client={"name": "cli", "version": "1"})["client_id"]
        daemon.kill()
        daemon.start()
        with daemon.follow(headers={"Ostler-Client": client_id}) as stream:
            assert stream.take(1)[0]["data"]["client"]["id"] == client_id
            with daemon.follow(headers={"Ostler-Client": "c_nobody"}) as stranger:
                create(daemon)
                assert stranger.take(1)[0]["type"] == "session.created"


def test_old_events_are_dropped_in_time_and_a_late_reader_is_told(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = create(daemon, title="old")
        rename(daemon, session_id, "older", "oldest")

        def age(tx: Tx) -> None:
            tx.connection.execute("UPDATE events SET time = '2001-01-01T00:00:00.000Z' WHERE cursor <= 2")

        daemon.write(age)

        async def tidy() -> None:
            from ostler.server.upkeep import tidy_once

            await tidy_once(daemon.running.house.log, daemon.running.house.configuration)

        daemon.do(tidy)
        with daemon.follow("?after=1") as stream:
            assert [event["type"] for event in stream.events()] == ["stream.reset"]
        for query in ("?after=0", "?after=2"):
            with daemon.follow(query) as stream:
                assert titles(stream.take(1)) == ["oldest"]
        assert daemon.call("session/get", session_id=session_id)["title"] == "oldest"


def test_a_message_is_never_in_progress_in_a_state_that_knows_its_end(home: Path) -> None:
    """A snapshot of the database may be ahead of what has been published; the two must not be mixed."""
    ended: dict[str, int] = {}
    seen: list[tuple[int, str]] = []

    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create(daemon))
        scope = Scope(session_id, session_id)
        house = daemon.running.house

        async def speak() -> None:
            for number in range(400):
                message = message_shape(session_id, f"m_{number}", "done")
                await house.log.write(partial(begin, scope=scope, message=message), session_id)
                ended[message.id] = await house.log.write(partial(complete, scope=scope, message=message), session_id)

        async def look() -> None:
            while len(ended) < 400:
                session = await house.sessions.get(SessionRef(session_id=session_id))
                if session.message is not None:
                    seen.append((session.cursor, session.message.id))

        async def both() -> None:
            import anyio

            async with anyio.create_task_group() as group:
                group.start_soon(speak)
                for _ in range(3):
                    group.start_soon(look)

        daemon.do(both)
    assert len(seen) > 20
    assert [one for one in seen if ended[one[1]] <= one[0]] == []


def begin(tx: Tx, scope: Scope, message: Message) -> int:
    data = MessageData(message=message.model_copy(update={"content": []}))
    return tx.append("message.started", scope, data=data)


def complete(tx: Tx, scope: Scope, message: Message) -> int:
    messages.add(tx.connection, message)
    return tx.append("message.completed", scope, reference=message.id)


def test_an_event_larger_than_the_queue_reaches_a_reader_that_keeps_up(home: Path) -> None:
    with InProcessDaemon(home, settings={"limits.queue_bytes": 65_536}) as daemon:
        session_id = create(daemon)
        with daemon.follow() as stream:
            finish_message(daemon, session_id, "m_1", "x" * 3_000_000)
            rename(daemon, session_id, "next")
            first, second = stream.take(2)
        assert len(first["data"]["message"]["content"][0]["text"]) == 3_000_000
        assert second["type"] == "session.updated"


def test_events_that_are_dropped_during_a_replay_end_it_with_a_reset(home: Path) -> None:
    from ostler.server.upkeep import tidy_once

    with InProcessDaemon(home) as daemon:
        session_id = create(daemon)
        pad = "".join(str(n) for n in range(10_000))
        for number in range(300):
            daemon.call("session/update", session_id=session_id, metadata={"n": number, "pad": pad})

        def age(tx: Tx) -> None:
            tx.connection.execute("UPDATE events SET time = '2001-01-01T00:00:00.000Z' WHERE cursor < 300")

        async def tidy() -> None:
            await tidy_once(daemon.running.house.log, daemon.running.house.configuration)

        with daemon.follow("?after=1", timeout=60) as stream:
            events = stream.events()
            first = next(events)["cursor"]
            daemon.write(age)
            daemon.do(tidy)
            rest = list(events)  # more than the connection holds: it is read on only now
        cursors = [first, *(event["cursor"] for event in rest if event["cursor"] is not None)]
        assert cursors == list(range(2, cursors[-1] + 1))
        assert cursors[-1] < 299
        assert rest[-1]["type"] == "stream.reset"


def test_an_agents_events_keep_their_order_and_its_end_is_told(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create(daemon)
        agent = make_agent(daemon, root, "s_agent")
        below = make_agent(daemon, agent, "s_below")
        introduced = daemon.call("initialize", client={"name": "t", "version": "1"})["client_id"]
        watching = f"?session={agent}"
        with daemon.follow(f"?session={root}") as whole, daemon.follow(watching, {"Ostler-Client": introduced}):
            attached = whole.take(1)[0]
            assert (attached["type"], attached["root_id"]) == ("client.attached", root)
        cursor = daemon.call("server/info")["cursor"]
        daemon.call("session/delete", session_id=below)
        with daemon.follow(f"?session={agent}&after={cursor}") as resumed:
            assert [(event["type"], event["session_id"]) for event in resumed.take(1)] == [("session.deleted", below)]
