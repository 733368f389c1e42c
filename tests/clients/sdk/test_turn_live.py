"""Turns of the SDK on a real daemon: streamed, asked about, steered, stopped, and killed in the middle."""

from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ostler.clients import (
    AskEnded,
    AskOpened,
    CallCompleted,
    CallStarted,
    MessageCompleted,
    Ostler,
    TextDelta,
    TurnEnded,
    connect,
)
from ostler.protocol.ask import Allow, Answer, Deny
from ostler.protocol.content import TextBlock
from ostler.protocol.errors import TurnRunning
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import SESSION_CREATE, TURN_LIST
from ostler.protocol.session import SessionCreate
from ostler.protocol.shapes import Ask
from ostler.protocol.turn import TurnList
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import hold, message, says
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio

LONG = "run tail -f README.md"
MODEL = "claude-sonnet-5"


async def create_session(ostler: Ostler, project: Path) -> SessionId:
    return (await ostler.call(SESSION_CREATE, SessionCreate(cwd=str(project)))).id


async def allow(ask: Ask) -> Answer | None:
    return Allow()


async def test_the_pieces_are_the_text_of_the_messages(rehearsal_daemon: Daemon, project: Path) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        session_id = await create_session(ostler, project)
        pieces, whole = "", ""
        async with ostler.turn(session_id, "read README.md") as turn:
            async for event in turn:
                match event:
                    case TextDelta(text=text):
                        pieces += text
                    case MessageCompleted(message=said) if said.role == "assistant":
                        whole += "".join(block.text for block in said.content if isinstance(block, TextBlock))
                    case _:
                        pass
        assert whole.endswith(turn.result.result_text or "nothing")
        assert pieces == whole


async def test_a_callback_answers_and_the_call_runs(rehearsal_daemon: Daemon, project: Path) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        async with ostler.turn(await create_session(ostler, project), "run touch made", on_ask=allow) as turn:
            seen = [event async for event in turn]
        (ended,) = (event.ask for event in seen if isinstance(event, AskEnded))
        assert ended.answered_by == ostler.daemon.client_id
        (call,) = (event.call for event in seen if isinstance(event, CallCompleted))
        assert (call.is_error, turn.result.denials) == (False, [])


async def test_of_two_callbacks_one_is_faster_and_neither_fails(rehearsal_daemon: Daemon, project: Path) -> None:
    async def deny(ask: Ask) -> Answer | None:
        return Deny(message="no", interrupt=False)

    home = str(rehearsal_daemon.home)
    async with connect(home, name="first") as first, connect(home, name="second") as second:
        for _ in range(10):
            session_id = await create_session(first, project)
            async with (
                first.turn(session_id, "run touch made", on_ask=allow) as one,
                second.follow(one.turn, on_ask=deny) as other,
                anyio.create_task_group() as group,
            ):
                group.start_soon(one.wait)
                group.start_soon(other.wait)
            assert one.result == other.result
            assert one.result.reason == "completed"


async def test_none_leaves_the_ask_to_others(rehearsal_daemon: Daemon, project: Path) -> None:
    async def nobody(ask: Ask) -> Answer | None:
        return None

    async with connect(str(rehearsal_daemon.home)) as ostler:
        async with ostler.turn(await create_session(ostler, project), "run touch made", on_ask=nobody) as turn:
            async for event in turn:
                if isinstance(event, AskOpened):
                    settled = await ostler.resolve(event.ask, Allow())
                    assert settled.status == "resolved"
        assert turn.result.reason == "completed"


async def test_an_interrupted_turn_ends_as_such(rehearsal_daemon: Daemon, project: Path) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        async with ostler.turn(await create_session(ostler, project), LONG, on_ask=allow) as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    await turn.interrupt()
        assert turn.result.reason == "interrupted"
        assert (await turn.interrupt()).status == "ended"


async def test_steering_reaches_the_model(api: ScriptedApi, home: Path, project: Path) -> None:
    gate = Gate()
    api.always(message(says("I ", hold(gate), "look.")), message(says("Seen.")))
    with Daemon(home, environment=api.environment):
        async with connect(str(home)) as ostler:
            async with ostler.turn(await create_session(ostler, project), "look", model=MODEL) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta) and event.text == "I ":
                        await turn.steer("left, please")
                        gate.open()
            assert turn.result.result_text == "Seen."
    assert "left, please" in str(api.requests[1].body["messages"])


async def test_a_second_turn_is_refused_or_queued(rehearsal_daemon: Daemon, project: Path) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        session_id = await create_session(ostler, project)
        async with ostler.turn(session_id, LONG, on_ask=allow) as first:
            with pytest.raises(TurnRunning):
                await ostler.start(session_id, "read README.md")
            async with ostler.turn(session_id, "read README.md", queue=True) as second:
                assert second.turn.status == "queued"
                await first.interrupt()
                assert "hello" in ((await second.wait()).result_text or "")
            assert (await first.wait()).reason == "interrupted"


async def test_a_turn_is_followed_through_a_killed_daemon_to_its_end(rehearsal_daemon: Daemon, project: Path) -> None:
    told: list[str] = []

    def restart() -> None:
        rehearsal_daemon.kill()
        wait_until(lambda: told == ["lost"])
        rehearsal_daemon.start()

    async def late(ask: Ask) -> Answer | None:
        await to_thread.run_sync(restart)
        return Allow()

    async with connect(str(rehearsal_daemon.home)) as ostler:
        session_id = await create_session(ostler, project)
        async with ostler.turn(session_id, "run touch made", on_ask=late, on_connection=told.append) as turn:
            seen = [event async for event in turn]
        assert turn.result.reason == "completed"
        assert isinstance(seen[-1], TurnEnded)
        cursors = [event.event.cursor for event in seen if event.event.cursor is not None]
        assert cursors == sorted(set(cursors))
        assert told == ["lost", "back"]


async def test_a_run_gives_the_turn_and_starts_it_once(rehearsal_daemon: Daemon, project: Path) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        session_id = await create_session(ostler, project)
        refused = await ostler.run(session_id, "run touch made")
        allowed = await ostler.run(session_id, "run touch made", on_ask=allow)
        fresh = await ostler.run(SessionCreate(cwd=str(project)), "run touch made")
        assert [len(turn.denials) for turn in (refused, allowed, fresh)] == [1, 0, 1]
        assert len((await ostler.call(TURN_LIST, TurnList(session_id=session_id))).turns) == 2
