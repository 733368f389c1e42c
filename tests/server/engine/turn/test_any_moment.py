"""Whatever happens at any moment of a turn (interrupt, steer, answer, delete), its history can still be sent."""

import json
from typing import Any

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message, says, thinks
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE

EVENT_COUNTS = range(1, 34, 2)


def open_busy_session(harness: Harness) -> SessionDriver:
    """Words, thoughts, reads beside each other, a change, a command, a wrong call, an ask."""
    driver = harness.open_session(rules={"allow": ["Bash"]})
    path = driver.write_file("a.txt", "alpha\n")
    read = [calls("Read", {"file_path": path, "limit": n}) for n in (1, 2)]
    driver.open_gate("go")
    harness.api.script(
        driver.name,
        message(thinks("Hm."), says("I ", "look."), *read, calls("Bash", {"command": "echo x"}), calls("Nothing", {})),
        message(
            calls("Gate", {"path": driver.get_gate_path("go")}), says("and "), calls("Bash", {"command": "exit 1"})
        ),
        message(says("And "), calls("Write", {"file_path": f"{driver.folder}/b.txt", "content": "b"})),
        otherwise=DONE,
    )
    return driver


def send_batch(driver: SessionDriver, *requests: tuple[str, Json]) -> list[Json]:
    """Calls that start in one moment; their answers in order."""
    body = [
        {"jsonrpc": "2.0", "id": at, "method": method, "params": params} for at, (method, params) in enumerate(requests)
    ]
    answers: list[Json] = driver.daemon.post(json.dumps(body).encode()).json
    return sorted(answers, key=lambda answer: int(answer["id"]))


@pytest.mark.parametrize("event_count", EVENT_COUNTS)
def test_an_interrupt_at_any_moment_leaves_a_usable_session(harness: Harness, event_count: int) -> None:
    driver = open_busy_session(harness)
    turn_id = driver.start()
    _read_events(driver, event_count)
    driver.daemon.send_rpc("turn/interrupt", {"turn_id": turn_id})
    assert driver.wait_for_turn_end(turn_id)["reason"] in {"interrupted", "completed"}
    _assert_calls_end_once(driver)
    driver.expect_usable()


@pytest.mark.parametrize("event_count", EVENT_COUNTS)
def test_a_steer_now_at_any_moment_is_heard_and_nothing_is_lost(harness: Harness, event_count: int) -> None:
    driver = open_busy_session(harness)
    turn_id = driver.start()
    _read_events(driver, event_count)
    steered = driver.daemon.send_rpc("turn/steer", {"turn_id": turn_id, "input": "Listen.", "now": True})
    if "result" not in steered:
        assert steered["error"]["data"]["code"] == "no_turn_running"
    ask = None if "turn.ended" in driver.list_event_types() else _wait_for_ask_or_end(driver)
    while ask is not None:
        driver.answer(ask, "allow")
        ask = _wait_for_ask_or_end(driver)
    _assert_calls_end_once(driver)
    if "result" in steered:
        assert "Listen." in str([request.messages[-1] for request in driver.requests])
    harness.daemon.call("turn/wait", turn_id=harness.daemon.call("turn/list", session_id=driver.id)["turns"][-1]["id"])
    driver.expect_usable()


def _read_events(driver: SessionDriver, event_count: int) -> None:
    """Read so many events, or as many as there are until somebody is asked or the turn is over."""
    while len(driver.seen) < event_count and not {"ask.opened", "turn.ended"} & set(driver.list_event_types()):
        driver.seen.append(driver.next_event())


def _wait_for_ask_or_end(driver: SessionDriver) -> Json | None:
    """The next ask, or nothing when the turn is over."""
    while True:
        event = driver.next_event()
        driver.seen.append(event)
        if event["type"] == "turn.ended":
            return None
        if event["type"] == "ask.opened":
            ask: Json = event["data"]["ask"]
            return ask


def _assert_calls_end_once(driver: SessionDriver) -> None:
    uses = [block["id"] for one in driver.fetch_messages() for block in one["content"] if block["type"] == "tool_use"]
    assert [result["tool_use_id"] for result in driver.fetch_results()] == uses
    happened = [(event["type"], event["data"]["call"]["call_id"]) for event in driver.seen if "call" in event["data"]]
    assert len(happened) == len(set(happened)), "something was told twice"
    ids = {call_id for _, call_id in happened}
    assert {call_id for kind, call_id in happened if kind == "tool.completed"} == ids


# Several things in one moment.


def test_two_asks_that_are_answered_in_one_moment_let_the_turn_run(harness: Harness) -> None:
    driver = harness.open_session()
    ask = calls("TestingPermission", {})
    harness.api.script(driver.name, message(ask, ask, calls("Gate", {"path": driver.get_gate_path("go")})), DONE)
    turn_id = driver.start()
    asks = [driver.wait_for_ask(), driver.wait_for_ask()]
    answers = send_batch(
        driver, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in asks)
    )
    assert all("result" in answer for answer in answers)
    driver.wait_at_gate("go")
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    state = driver.fetch_state()
    assert (state["status"], state["turn"]["status"]) == ("running", "running")
    driver.open_gate("go")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [data["turn"]["status"] for data in driver.list_event_data("turn.updated")] == ["waiting", "running"]
    driver.expect_usable()


def test_an_ask_that_is_opened_while_another_is_answered_keeps_the_turn_waiting(harness: Harness) -> None:
    ask = calls("TestingPermission", {})
    driver = harness.open_session(message(*[ask] * 12), DONE)
    turn_id = driver.start()
    asks = [driver.wait_for_ask() for _ in range(10)]
    send_batch(driver, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in asks))
    later = [driver.wait_for_ask(), driver.wait_for_ask()]
    for each in later:
        driver.wait("tool.queued", lambda data, each=each: data["call"]["call_id"] == each["call"]["call_id"])  # type: ignore[misc]
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "waiting"
    assert driver.fetch_state()["status"] == "waiting"
    send_batch(driver, *(("ask/resolve", {"ask_id": ask["id"], "answer": {"choice": "allow"}}) for ask in later))
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    driver.expect_usable()


def test_of_two_starts_in_one_moment_one_is_refused(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Only ", hold(gate), "one.")))
    start: tuple[str, dict[str, Any]] = ("turn/start", {"session_id": driver.id, "input": driver.tag_input("Go.")})
    answers = send_batch(driver, *[start] * 4)
    assert sum("result" in answer for answer in answers) == 1
    assert {answer["error"]["data"]["code"] for answer in answers if "error" in answer} == {"turn_running"}
    gate.open()
    driver.wait_for_turn_end()
    assert len(driver.requests) == 1
    driver.expect_usable()


def test_a_queue_of_one_moment_is_worked_off(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE)
    start: tuple[str, dict[str, Any]] = (
        "turn/start",
        {"session_id": driver.id, "input": driver.tag_input("Go."), "queue": True},
    )
    answers = send_batch(driver, *[start] * 10)
    turns = [answer["result"]["id"] for answer in answers]
    assert len(set(turns)) == 10
    for turn_id in turns:
        assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.list_event_types("turn.started", "turn.ended") == ["turn.started", "turn.ended"] * 10
    driver.expect_usable()


# Asks of a message that is not complete.


def test_an_ask_can_be_answered_while_its_message_still_streams(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"}), hold(gate), says("More.")), DONE)
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    assert driver.wait("tool.completed")["data"]["call"]["is_error"] is False
    assert driver.requests[0].end is None
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    driver.expect_usable()


def test_an_ask_of_a_message_that_broke_off_is_taken_back(harness: Harness) -> None:
    gate = Gate()
    broken = message(calls("Bash", {"command": "touch it"}), hold(gate), cut())
    driver = harness.open_session(attempts(broken, DONE))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    gate.open()
    assert driver.wait("ask.resolved")["data"]["ask"]["status"] == "cancelled"
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    assert harness.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    assert [data["turn"]["status"] for data in driver.list_event_data("turn.updated")] == ["waiting", "running"]
    assert not (driver.folder / "it").exists()
    driver.expect_usable()


def test_the_time_of_a_turn_runs_out_while_it_waits_for_an_answer(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = driver.start(timeout_ms=150)
    ask = driver.wait_for_ask()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "timeout"
    assert harness.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    driver.expect_usable()


def test_a_call_that_a_person_made_unsafe_waits_for_what_runs(harness: Harness) -> None:
    driver = harness.open_session()
    first, second, other = (driver.get_gate_path(name) for name in ("a", "b", "c"))
    harness.daemon.call("session/update", session_id=driver.id, rules={"ask": [f"Gate({second})"]})
    harness.api.script(
        driver.name,
        message(calls("Gate", {"path": first, "safe": True}), calls("Gate", {"path": second, "safe": True})),
        DONE,
    )
    turn_id = driver.start()
    driver.wait_at_gate("a")
    driver.answer(driver.wait_for_ask(), "allow", input={"path": other, "safe": False})
    driver.open_gate("c")
    driver.open_gate("a")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    order = driver.list_call_events()
    assert order.index(("started", 1)) > order.index(("completed", 0))
    assert driver.fetch_result_texts() == ["passed a", "passed c"]
    driver.expect_usable()


def test_a_no_without_words_stops_a_message_that_still_streams(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"}), says("And ", hold(Gate()), "more.")))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.wait("message.delta", lambda data: data["kind"] == "text")
    driver.answer(ask, "deny")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert driver.requests[0].wait_until_ended() == "left"
    assert driver.outline_messages() == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "text"]),
        ("user", ["tool_result"]),
    ]
    driver.expect_usable()


def test_a_session_is_deleted_in_the_middle_of_everything(harness: Harness) -> None:
    driver = harness.open_session()
    running = calls("Gate", {"path": driver.get_gate_path("never"), "safe": True})
    harness.api.script(driver.name, message(running, calls("TestingPermission", {}), says("And ", hold(Gate()))))
    driver.start()
    driver.start("Later.", queue=True)
    driver.wait_at_gate("never")
    ask = driver.wait_for_ask()
    harness.daemon.call("session/delete", session_id=driver.id)
    driver.wait("session.deleted")
    assert driver.requests[0].wait_until_ended() == "left"
    assert len(driver.requests) == 1
    for method, name in (("ask/get", ask["id"]), ("turn/get", ask["turn_id"]), ("session/get", driver.id)):
        noun = method.partition("/")[0]
        assert driver.expect_error(method, **{f"{noun}_id": name})["data"]["code"] == f"{noun}_not_found"
