"""Turns of the SDK against a scripted daemon: lost connections, refusals, late answers."""

from typing import Any

import anyio
import pytest

from ostler.clients import (
    AskEnded,
    AskOpened,
    CallCompleted,
    DaemonUnreachable,
    MessageCompleted,
    OtherEvent,
    TextDelta,
    TurnChanged,
    TurnEnded,
    UnexpectedAnswer,
    connect,
    refuse,
    typed,
)
from ostler.clients.sdk.turn import TurnSettings
from ostler.protocol import shapes
from ostler.protocol.ask import Allow, Answer, Deny
from ostler.protocol.errors import InvalidParams, TurnRunning
from ostler.protocol.events import EVENT_TYPES, Event
from ostler.protocol.session import SessionCreate
from ostler.protocol.turn import TurnStart
from tests.clients.sdk.scripted_daemon import NOW, encode_turn_event, run_scripted_daemon

pytestmark = pytest.mark.anyio

RUNNING: dict[str, Any] = {"id": "t_1", "session_id": "s_1", "status": "running", "started_at": NOW, "cursor": 10}
ENDED: dict[str, Any] = {**RUNNING, "status": "ended", "reason": "completed", "result_text": "Done."}
ASK: dict[str, Any] = {
    "id": "k_1",
    "session_id": "s_1",
    "root_id": "s_1",
    "turn_id": "t_1",
    "kind": "permission",
    "status": "open",
    "call": {"call_id": "m_1#0", "tool": "Bash", "input": {"command": "make"}, "summary": "make"},
    "choices": ["allow", "allow_always", "deny", "deny_always"],
    "opened_at": NOW,
}
RESOLVED: dict[str, Any] = {**ASK, "status": "resolved", "answer": {"choice": "allow"}, "answered_by": "c_1"}


def encode_delta(offset: int, text: str, kind: str = "text") -> bytes:
    return encode_turn_event("message.delta", None, message_id="m_1", index=0, kind=kind, offset=offset, text=text)


def encode_turn_ended(cursor: int, turn_id: str = "t_1") -> bytes:
    return encode_turn_event("turn.ended", cursor, turn_id, turn={**ENDED, "id": turn_id})


async def test_a_turn_is_an_iterator_of_typed_events() -> None:
    call = {"call_id": "m_1#0", "tool_use_id": "x", "session_id": "s_1", "tool": "Read", "input": {}}
    message = {"id": "m_1", "session_id": "s_1", "role": "assistant", "content": [], "created_at": NOW}
    script = (
        encode_turn_event("turn.started", 11, turn=RUNNING)
        + encode_delta(0, "Do")
        + encode_delta(2, "ne.")
        + encode_turn_event("message.completed", 12, message=message)
        + encode_turn_event("tool.completed", 13, call={**call, "status": "completed"})
        + encode_turn_ended(14)
    )
    async with (
        run_scripted_daemon((200, script), **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        daemon.cursor = 9
        async with ostler.turn("s_1", "go", max_requests=3) as turn:
            with pytest.raises(RuntimeError, match="has not ended"):
                _ = turn.result
            seen = [type(one) async for one in turn]
        assert seen == [TurnChanged, TextDelta, TextDelta, MessageCompleted, CallCompleted, TurnEnded]
        assert turn.result.result_text == "Done."
        started = next(params for method, params in daemon.calls if method == "turn/start")
        assert (started["input"], started["max_requests"]) == ("go", 3)
        assert daemon.last_event_ids == ["9"]  # the end of the log before the turn began


async def test_a_turn_goes_on_after_a_lost_connection_and_no_letter_comes_twice() -> None:
    streams = (200, encode_delta(0, "Hel")), (200, encode_delta(0, "Hello") + encode_turn_ended(11))
    async with (
        run_scripted_daemon(*streams, **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go") as turn,
    ):
        texts = [one.text async for one in turn if isinstance(one, TextDelta)]
    assert texts == ["Hel", "lo"]


async def test_other_turns_of_the_session_are_left_out() -> None:
    script = encode_turn_ended(11, "t_0") + encode_turn_event("turn.started", 12, turn=RUNNING) + encode_turn_ended(13)
    async with (
        run_scripted_daemon((200, script), **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go", queue=True) as turn,
    ):
        assert [one.event.cursor async for one in turn] == [12, 13]


async def test_a_turn_that_ended_out_of_sight_is_over_all_the_same() -> None:
    reset = encode_turn_event("stream.reset", None, None, cursor=50, reason="pruned")
    results = {"turn/start": RUNNING, "turn/get": ENDED}
    async with (
        run_scripted_daemon((200, reset), **results) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go") as turn,
    ):
        assert [type(one) async for one in turn] == [OtherEvent]
        assert turn.result.reason == "completed"


async def test_a_start_whose_answer_was_lost_is_asked_again_under_the_same_key() -> None:
    keys: list[str] = []

    async def start(params: dict[str, Any]) -> dict[str, Any]:
        keys.append(params["idempotency_key"])
        if len(keys) == 1:
            return {"code": -32001, "message": "It stops.", "data": {"code": "shutting_down"}}
        return RUNNING

    async with (
        run_scripted_daemon((200, encode_turn_ended(11)), **{"turn/start": start}) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go") as turn,
    ):
        await turn.wait()
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_a_second_turn_is_refused_as_the_daemon_says() -> None:
    refusal = {"code": -32001, "message": "A turn runs.", "data": {"code": "turn_running", "turn_id": "t_0"}}
    async with (
        run_scripted_daemon((200, b": hello"), **{"turn/start": refusal}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        with pytest.raises(TurnRunning, match=r"A turn runs\."):
            async with ostler.turn("s_1", "go"):
                pass


async def test_the_callback_answers_while_the_events_go_on() -> None:
    asked: list[shapes.Ask] = []
    answered = anyio.Event()

    async def on_ask(ask: shapes.Ask) -> Answer | None:
        asked.append(ask)
        return Allow()

    async def resolve(params: dict[str, Any]) -> dict[str, Any]:
        answered.set()
        return RESOLVED

    first, second = (
        encode_turn_event("ask.opened", 11, ask=ASK),
        encode_turn_event("ask.resolved", 12, ask=RESOLVED) + encode_turn_ended(13),
    )
    results = {"turn/start": RUNNING, "ask/resolve": resolve}
    async with run_scripted_daemon((200, first), (200, second), **results) as daemon, connect(url=daemon.url) as ostler:
        async with ostler.turn("s_1", "go", on_ask=on_ask) as turn:
            assert isinstance(await anext(turn), AskOpened)
            with anyio.fail_after(10):
                await answered.wait()
            assert [type(one) async for one in turn] == [AskEnded, TurnEnded]
        assert ("ask/resolve", {"ask_id": "k_1", "answer": {"choice": "allow"}}) in daemon.calls
    assert [ask.id for ask in asked] == ["k_1"]


async def test_a_callback_is_cancelled_when_somebody_else_was_faster() -> None:
    began, cancelled = anyio.Event(), anyio.Event()

    async def on_ask(ask: shapes.Ask) -> Answer | None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return None

    first, second = (
        encode_turn_event("ask.opened", 11, ask=ASK),
        encode_turn_event("ask.resolved", 12, ask=RESOLVED) + encode_turn_ended(13),
    )
    async with (
        run_scripted_daemon((200, first), (200, second), **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go", on_ask=on_ask) as turn,
    ):
        assert isinstance(await anext(turn), AskOpened)
        with anyio.fail_after(10):
            await began.wait()
            assert isinstance(await anext(turn), AskEnded)
            await cancelled.wait()


async def test_a_slower_answer_is_no_error() -> None:
    late = {"code": -32001, "message": "Too late.", "data": {"code": "ask_resolved", "ask": RESOLVED}}
    async with run_scripted_daemon(**{"ask/resolve": late}) as daemon, connect(url=daemon.url) as ostler:
        outcome = await ostler.resolve(shapes.Ask.model_validate(ASK), Deny())
        assert (outcome.answered_by, outcome.answer) == ("c_1", {"choice": "allow"})


async def test_an_error_of_the_callback_is_raised_to_whoever_reads_the_turn() -> None:
    async def on_ask(ask: shapes.Ask) -> Answer | None:
        raise LookupError("no idea")

    script = encode_turn_event("ask.opened", 11, ask=ASK)
    async with (
        run_scripted_daemon((200, script), **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        with pytest.raises(LookupError, match="no idea"):
            async with ostler.turn("s_1", "go", on_ask=on_ask) as turn:
                await turn.wait()


async def test_an_answer_that_the_daemon_does_not_take_is_raised_too() -> None:
    async def on_ask(ask: shapes.Ask) -> Answer | None:
        return Allow(input={"command": 7})

    refusal = {"code": -32602, "message": "Invalid params", "data": {"errors": []}}
    script, results = encode_turn_event("ask.opened", 11, ask=ASK), {"turn/start": RUNNING, "ask/resolve": refusal}
    async with run_scripted_daemon((200, script), **results) as daemon, connect(url=daemon.url) as ostler:
        with pytest.raises(InvalidParams):
            async with ostler.turn("s_1", "go", on_ask=on_ask) as turn:
                await turn.wait()


async def test_the_asks_that_are_open_already_reach_the_callback_of_a_late_follower() -> None:
    asked = anyio.Event()

    async def on_ask(ask: shapes.Ask) -> Answer | None:
        asked.set()
        return None

    waiting = shapes.Turn.model_validate({**RUNNING, "status": "waiting"})
    stream, results = (200, b": hello"), {"ask/list": {"asks": [ASK], "next": None}}
    async with (
        run_scripted_daemon(stream, **results) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.follow(waiting, on_ask=on_ask),
    ):
        with anyio.fail_after(10):
            await asked.wait()


async def test_a_run_in_a_new_session_refuses_asks_unless_somebody_answers_them() -> None:
    session = {"id": "s_1", "cwd": "/", "model": "m", "provider": "p", "mode": "default", "status": "idle"}
    stamps = {"root_id": "s_1", "on_ask": "deny", "created_at": NOW, "updated_at": NOW, "cursor": 9}
    results = {"turn/start": RUNNING, "session/create": {**session, **stamps}}
    async with (
        run_scripted_daemon((200, encode_turn_ended(11)), (200, encode_turn_ended(11)), **results) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        assert (await ostler.run(SessionCreate(cwd="/"), "go")).result_text == "Done."
        await ostler.run(SessionCreate(cwd="/"), "go", on_ask=refuse)
        created = [params["on_ask"] for method, params in daemon.calls if method == "session/create"]
    assert created == ["deny", "ask"]


@pytest.mark.parametrize(
    ("kind", "choices", "wanted"),
    [
        ("permission", ["allow", "deny"], "deny"),
        ("question", ["answer", "decline"], "decline"),
        ("plan", ["approve", "reject"], "reject"),
        ("elicitation", ["accept", "decline", "cancel"], "decline"),
        ("trust", ["trust", "restrict"], "restrict"),
    ],
)
async def test_refusing_says_no_to_every_kind_of_ask(kind: str, choices: list[str], wanted: str) -> None:
    answer = await refuse(shapes.Ask.model_validate({**ASK, "kind": kind, "choices": choices}))
    assert answer is not None
    assert answer.choice == wanted


async def test_a_reader_with_limited_patience_gives_up_on_a_daemon_that_is_gone() -> None:
    told: list[str] = []
    async with (
        run_scripted_daemon((200, encode_delta(0, "x")), **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        daemon.streams += [(503, b"")] * 100
        with pytest.raises(DaemonUnreachable):
            async with ostler.turn("s_1", "go", on_connection=told.append, patience_seconds=0.3) as turn:
                await turn.wait()
    assert told == ["lost"]


async def test_a_connection_that_came_back_is_told() -> None:
    told: list[str] = []
    streams = (200, encode_delta(0, "x")), (503, b""), (200, encode_turn_ended(11))
    async with (
        run_scripted_daemon(*streams, **{"turn/start": RUNNING}) as daemon,
        connect(url=daemon.url) as ostler,
        ostler.turn("s_1", "go", on_connection=told.append) as turn,
    ):
        await turn.wait()
    assert told == ["lost", "back"]


def test_every_setting_of_a_turn_can_be_given() -> None:
    apart = {"session_id", "input", "idempotency_key"}
    assert TurnSettings.__annotations__.keys() == TurnStart.model_fields.keys() - apart


def test_an_event_without_what_it_should_hold_is_an_error_and_an_unknown_one_is_not() -> None:
    fields: dict[str, Any] = {"cursor": 1, "session_id": None, "root_id": None, "time": NOW, "data": {}}
    assert isinstance(typed(Event.model_validate({**fields, "type": "moon.rose"})), OtherEvent)
    with pytest.raises(UnexpectedAnswer, match=r"turn\.ended"):
        typed(Event.model_validate({**fields, "type": "turn.ended"}))


def test_every_event_of_a_session_has_a_type_of_its_own() -> None:
    from ostler.clients.sdk.turn_events import _READERS

    apart = ("client.", "config.", "stream.")
    assert {name for name in EVENT_TYPES if not name.startswith(apart)} == _READERS.keys()
