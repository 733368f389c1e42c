"""Events that are not stored, and messages in progress: their order, and what a late subscriber gets of them."""

import json
from functools import partial
from itertools import pairwise
from pathlib import Path

from ostler.protocol import times
from ostler.protocol.ids import SessionId
from ostler.protocol.session import SessionRef
from ostler.protocol.shapes import Ask, Call
from ostler.server.api.sessions import SessionMethods
from ostler.storage import Scope, Tx
from tests.support.inprocess import InProcessDaemon
from tests.support.session_events import (
    append_completed,
    append_notice,
    append_started,
    build_delta,
    build_message,
    create_session,
    finish_message,
    rename_session,
    replay_events,
    start_message,
    take_deltas,
)


def test_what_is_not_stored_has_no_id_and_says_what_came_before(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))
        with daemon.follow() as stream:
            daemon.publish_transient("message.delta", Scope(session_id, session_id), build_delta("m_1", 0, "hello"))
            (frame,) = [next(stream.read_frames())]
        event = json.loads(frame["data"])
        assert "id" not in frame
        assert (event["cursor"], event["after"], event["data"]["text"]) == (None, 1, "hello")
        assert [event["type"] for event in replay_events(daemon)] == ["session.created"]


def test_a_delta_made_after_a_stored_event_is_sent_after_it(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))
        scope = Scope(session_id, session_id)
        with daemon.follow() as stream:

            async def write_and_say() -> None:
                """Without waiting for the disk in between."""
                log = daemon.running.log
                pending = []
                for number in range(20):
                    log.publish_transient("message.delta", scope, build_delta("m_1", number, f"{number}a"))
                    pending.append(log.submit(lambda tx: append_notice(tx, scope), session_id))
                    log.publish_transient("message.delta", scope, build_delta("m_1", number, f"{number}b"))
                for one in pending:
                    await one

            daemon.run_on_loop(write_and_say)
            events = stream.take(60)
        said = [event["data"].get("text", "stored") for event in events]
        assert said == [word for n in range(20) for word in (f"{n}a", "stored", f"{n}b")]
        for before, after in pairwise(events):
            if before["type"] == "notice" and after["type"] == "message.delta":
                assert after["after"] == before["cursor"]


def test_a_message_in_progress_is_given_again_from_its_start(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))
        scope = Scope(session_id, session_id)
        start_message(daemon, session_id, "m_1")
        for offset, text in ((0, "Hel"), (3, "lo"), (5, ", 🐎")):
            daemon.publish_transient("message.delta", scope, build_delta("m_1", offset, text))
        daemon.publish_transient("message.delta", scope, build_delta("m_1", 0, "second block", index=1))
        shown = daemon.call("session/get", session_id=session_id)
        assert [block["text"] for block in shown["message"]["content"]] == ["Hello, 🐎", "second block"]
        text = "Hello, 🐎"
        for query in ("?after=0", f"?session={session_id}&after={shown['cursor']}", "?after=now"):
            with daemon.follow(query) as stream:
                deltas = [event["data"] for event in take_deltas(stream, 2)]
                assert [(one["index"], one["offset"]) for one in deltas] == [(0, 0), (1, 0)]
                assert [one["text"] for one in deltas] == [text, "second block"]
                daemon.publish_transient("message.delta", scope, build_delta("m_1", len(text), "!"))
                assert stream.take(1)[0]["data"]["text"] == "!"
            text += "!"
        finish_message(daemon, session_id, "m_1", text)
        assert daemon.call("session/get", session_id=session_id)["message"] is None
        with daemon.follow("?after=now") as stream:
            rename_session(daemon, session_id, "next")
            assert [event["type"] for event in stream.take(1)] == ["session.updated"]


def test_a_client_can_do_without_deltas(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        client = {"client": {"name": "quiet", "version": "1"}, "capabilities": {"deltas": False}}
        client_id = daemon.call("initialize", **client)["client_id"]
        session_id = SessionId(create_session(daemon))
        scope = Scope(session_id, session_id)
        with daemon.follow(f"?session={session_id}", {"Ostler-Client": client_id}) as stream:
            assert stream.take(1)[0]["type"] == "client.attached"
            daemon.publish_transient("message.delta", scope, build_delta("m_1", 0, "not this"))
            rename_session(daemon, session_id, "but this")
            assert stream.take(1)[0]["type"] == "session.updated"


def test_lines_that_refer_are_filled_in_as_they_were_then(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))
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
            tx.calls.put(call)
            tx.append("tool.queued", scope, reference="m_1#0")
            tx.asks.open_ask(ask, tx.next_cursor)
            tx.append("ask.opened", scope, reference="k_1")

        def settle(tx: Tx) -> bool:
            settled = tx.asks.settle(answered)
            if settled:
                tx.append("ask.resolved", scope, reference="k_1")
                tx.calls.put(done)
                tx.append("tool.completed", scope, reference="m_1#0")
            return settled

        with daemon.follow() as live:
            daemon.write(open_all, session_id)
            assert [one["id"] for one in daemon.call("session/get", session_id=session_id)["asks"]] == ["k_1"]
            assert (daemon.write(settle, session_id), daemon.write(settle, session_id)) == (True, False)
            frames = live.read_frames()
            seen = [next(frames) for _ in range(4)]
        finish_message(daemon, session_id, "m_9", "whole")
        with daemon.follow("?after=1") as replay:
            frames = replay.read_frames()
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


def test_a_message_is_never_in_progress_in_a_state_that_knows_its_end(home: Path) -> None:
    """A snapshot of the database may be ahead of what has been published; the two must not be mixed."""
    ended: dict[str, int] = {}
    seen: list[tuple[int, str]] = []

    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))
        scope = Scope(session_id, session_id)
        running = daemon.running
        sessions = SessionMethods(running.log, running.configuration, running.engine)

        async def speak() -> None:
            for number in range(400):
                message = build_message(session_id, f"m_{number}", "done")
                await running.log.write(partial(append_started, scope=scope, message=message), session_id)
                ended[message.id] = await running.log.write(
                    partial(append_completed, scope=scope, message=message), session_id
                )

        async def look() -> None:
            while len(ended) < 400:
                session = await sessions.get(SessionRef(session_id=session_id))
                if session.message is not None:
                    seen.append((session.cursor, session.message.id))

        async def both() -> None:
            import anyio

            async with anyio.create_task_group() as group:
                group.start_soon(speak)
                for _ in range(3):
                    group.start_soon(look)

        daemon.run_on_loop(both)
    assert len(seen) > 20
    assert [one for one in seen if ended[one[1]] <= one[0]] == []
