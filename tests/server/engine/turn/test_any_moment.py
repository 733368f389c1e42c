"""Whatever happens at whatever moment of a turn: the history stays one that can be sent."""

import json
from typing import Any

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message, says, thinks
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE

MOMENTS = range(1, 34, 2)


def busy_talk(stage: Stage) -> Talk:
    """Words, thoughts, reads beside each other, a change, a command, a wrong call, an ask."""
    talk = stage.talk(rules={"allow": ["Bash"]})
    path = talk.file("a.txt", "alpha\n")
    read = [calls("Read", {"file_path": path, "limit": n}) for n in (1, 2)]
    talk.open_gate("go")
    stage.api.script(
        talk.name,
        message(thinks("Hm."), says("I ", "look."), *read, calls("Bash", {"command": "echo x"}), calls("Nothing", {})),
        message(calls("Gate", {"path": talk.gate("go")}), says("and "), calls("Bash", {"command": "exit 1"})),
        message(says("And "), calls("Write", {"file_path": f"{talk.folder}/b.txt", "content": "b"})),
        otherwise=DONE,
    )
    return talk


def batch(talk: Talk, *requests: tuple[str, Json]) -> list[Json]:
    """Calls that start in one moment; their answers in order."""
    body = [
        {"jsonrpc": "2.0", "id": at, "method": method, "params": params} for at, (method, params) in enumerate(requests)
    ]
    answers: list[Json] = talk.daemon.post(json.dumps(body).encode()).json
    return sorted(answers, key=lambda answer: int(answer["id"]))


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_at_any_moment_leaves_a_usable_session(stage: Stage, moment: int) -> None:
    talk = busy_talk(stage)
    turn_id = talk.start()
    _look(talk, moment)
    talk.daemon.rpc("turn/interrupt", {"turn_id": turn_id})
    assert talk.ended(turn_id)["reason"] in {"interrupted", "completed"}
    _every_call_has_one_end(talk)
    talk.is_usable()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_steer_now_at_any_moment_is_heard_and_nothing_is_lost(stage: Stage, moment: int) -> None:
    talk = busy_talk(stage)
    turn_id = talk.start()
    _look(talk, moment)
    steered = talk.daemon.rpc("turn/steer", {"turn_id": turn_id, "input": "Listen.", "now": True})
    if "result" not in steered:
        assert steered["error"]["data"]["code"] == "no_turn_running"
    ask = None if "turn.ended" in talk.types() else _ask_or_end(talk)
    while ask is not None:
        talk.answer(ask, "allow")
        ask = _ask_or_end(talk)
    _every_call_has_one_end(talk)
    if "result" in steered:
        assert "Listen." in str([request.messages[-1] for request in talk.requests])
    stage.daemon.call("turn/wait", turn_id=stage.daemon.call("turn/list", session_id=talk.id)["turns"][-1]["id"])
    talk.is_usable()


def _look(talk: Talk, moment: int) -> None:
    """Read so many events, or as many as there are until somebody is asked or the turn is over."""
    while len(talk.seen) < moment and not {"ask.opened", "turn.ended"} & set(talk.types()):
        talk.seen.append(talk.next_event())


def _ask_or_end(talk: Talk) -> Json | None:
    """The next ask, or nothing when the turn is over."""
    while True:
        event = talk.next_event()
        talk.seen.append(event)
        if event["type"] == "turn.ended":
            return None
        if event["type"] == "ask.opened":
            ask: Json = event["data"]["ask"]
            return ask


def _every_call_has_one_end(talk: Talk) -> None:
    uses = [block["id"] for one in talk.messages() for block in one["content"] if block["type"] == "tool_use"]
    assert [result["tool_use_id"] for result in talk.results()] == uses
    happened = [(event["type"], event["data"]["call"]["call_id"]) for event in talk.seen if "call" in event["data"]]
    assert len(happened) == len(set(happened)), "something was told twice"
    ids = {call_id for _, call_id in happened}
    assert {call_id for kind, call_id in happened if kind == "tool.completed"} == ids


# Several things in one moment.


def test_two_asks_that_are_answered_in_one_moment_let_the_turn_run(stage: Stage) -> None:
    talk = stage.talk()
    ask = calls("TestingPermission", {})
    stage.api.script(talk.name, message(ask, ask, calls("Gate", {"path": talk.gate("go")})), DONE)
    turn_id = talk.start()
    asks = [talk.ask(), talk.ask()]
    answers = batch(talk, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in asks))
    assert all("result" in answer for answer in answers)
    talk.at_gate("go")
    assert stage.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    state = talk.state()
    assert (state["status"], state["turn"]["status"]) == ("running", "running")
    talk.open_gate("go")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert [data["turn"]["status"] for data in talk.all("turn.updated")] == ["waiting", "running"]
    talk.is_usable()


def test_an_ask_that_is_opened_while_another_is_answered_keeps_the_turn_waiting(stage: Stage) -> None:
    ask = calls("TestingPermission", {})
    talk = stage.talk(message(*[ask] * 12), DONE)
    turn_id = talk.start()
    asks = [talk.ask() for _ in range(10)]
    batch(talk, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in asks))
    later = [talk.ask(), talk.ask()]
    for each in later:
        talk.wait("tool.queued", lambda data, each=each: data["call"]["call_id"] == each["call"]["call_id"])  # type: ignore[misc]
    assert stage.daemon.call("turn/get", turn_id=turn_id)["status"] == "waiting"
    assert talk.state()["status"] == "waiting"
    batch(talk, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in later))
    assert talk.ended(turn_id)["reason"] == "completed"
    talk.is_usable()


def test_of_two_starts_in_one_moment_one_is_refused(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Only ", hold(gate), "one.")))
    start: tuple[str, dict[str, Any]] = ("turn/start", {"session_id": talk.id, "input": talk.input("Go.")})
    answers = batch(talk, *[start] * 4)
    assert sum("result" in answer for answer in answers) == 1
    assert {answer["error"]["data"]["code"] for answer in answers if "error" in answer} == {"turn_running"}
    gate.open()
    talk.ended()
    assert len(talk.requests) == 1
    talk.is_usable()


def test_a_queue_of_one_moment_is_worked_off(stage: Stage) -> None:
    talk = stage.talk(otherwise=DONE)
    start: tuple[str, dict[str, Any]] = (
        "turn/start",
        {"session_id": talk.id, "input": talk.input("Go."), "queue": True},
    )
    answers = batch(talk, *[start] * 10)
    turns = [answer["result"]["id"] for answer in answers]
    assert len(set(turns)) == 10
    for turn_id in turns:
        assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.types("turn.started", "turn.ended") == ["turn.started", "turn.ended"] * 10
    talk.is_usable()


# Asks of a message that is not complete.


def test_an_ask_can_be_answered_while_its_message_still_streams(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(calls("Bash", {"command": "touch it"}), hold(gate), says("More.")), DONE)
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow")
    assert talk.wait("tool.completed")["data"]["call"]["is_error"] is False
    assert talk.requests[0].end is None
    gate.open()
    assert talk.ended(turn_id)["reason"] == "completed"
    talk.is_usable()


def test_an_ask_of_a_message_that_broke_off_is_taken_back(stage: Stage) -> None:
    gate = Gate()
    broken = message(calls("Bash", {"command": "touch it"}), hold(gate), cut())
    talk = stage.talk(attempts(broken, DONE))
    turn_id = talk.start()
    ask = talk.ask()
    gate.open()
    assert talk.wait("ask.resolved")["data"]["ask"]["status"] == "cancelled"
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["text"])]
    assert stage.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    assert [data["turn"]["status"] for data in talk.all("turn.updated")] == ["waiting", "running"]
    assert not (talk.folder / "it").exists()
    talk.is_usable()


def test_the_time_of_a_turn_runs_out_while_it_waits_for_an_answer(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = talk.start(timeout_ms=150)
    ask = talk.ask()
    assert talk.ended(turn_id)["reason"] == "timeout"
    assert stage.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    talk.is_usable()


def test_a_call_that_a_person_made_unsafe_waits_for_what_runs(stage: Stage) -> None:
    talk = stage.talk()
    first, second, other = (talk.gate(name) for name in ("a", "b", "c"))
    stage.daemon.call("session/update", session_id=talk.id, rules={"ask": [f"Gate({second})"]})
    stage.api.script(
        talk.name,
        message(calls("Gate", {"path": first, "safe": True}), calls("Gate", {"path": second, "safe": True})),
        DONE,
    )
    turn_id = talk.start()
    talk.at_gate("a")
    talk.answer(talk.ask(), "allow", input={"path": other, "safe": False})
    talk.open_gate("c")
    talk.open_gate("a")
    assert talk.ended(turn_id)["reason"] == "completed"
    order = talk.call_events()
    assert order.index(("started", 1)) > order.index(("completed", 0))
    assert talk.result_texts() == ["passed a", "passed c"]
    talk.is_usable()


def test_a_no_without_words_stops_a_message_that_still_streams(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"}), says("And ", hold(Gate()), "more.")))
    turn_id = talk.start()
    ask = talk.ask()
    talk.wait("message.delta", lambda data: data["kind"] == "text")
    talk.answer(ask, "deny")
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert talk.requests[0].wait_until_ended() == "left"
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["tool_use", "text"]), ("user", ["tool_result"])]
    talk.is_usable()


def test_a_session_is_deleted_in_the_middle_of_everything(stage: Stage) -> None:
    talk = stage.talk()
    running = calls("Gate", {"path": talk.gate("never"), "safe": True})
    stage.api.script(talk.name, message(running, calls("TestingPermission", {}), says("And ", hold(Gate()))))
    talk.start()
    talk.start("Later.", queue=True)
    talk.at_gate("never")
    ask = talk.ask()
    stage.daemon.call("session/delete", session_id=talk.id)
    talk.wait("session.deleted")
    assert talk.requests[0].wait_until_ended() == "left"
    assert len(talk.requests) == 1
    for method, name in (("ask/get", ask["id"]), ("turn/get", ask["turn_id"]), ("session/get", talk.id)):
        noun = method.partition("/")[0]
        assert talk.refused(method, **{f"{noun}_id": name})["data"]["code"] == f"{noun}_not_found"
