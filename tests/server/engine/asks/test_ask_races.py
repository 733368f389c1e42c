"""Two people, one ask: one answer, and both know whose."""

from functools import partial
from typing import Any

from tests.support.driver import BackgroundThread, Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

ROUNDS = 40


def connect_client(driver: SessionDriver, name: str) -> str:
    params = {"client": {"name": name, "version": "1", "kind": "other"}}
    return str(driver.daemon.call("initialize", **params)["client_id"])


def resolve(driver: SessionDriver, ask: Json, client_id: str, **answer: Any) -> Json:
    params = {"ask_id": ask["id"], "answer": answer}
    told: Json = driver.daemon.send_rpc("ask/resolve", params, headers={"Ostler-Client": client_id})
    return told


def test_an_answer_carries_the_client_that_gave_it(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = driver.start()
    me = connect_client(driver, "me")
    answered = resolve(driver, driver.wait_for_ask(), me, choice="allow")["result"]
    assert (answered["answered_by"], answered["answered_by_name"]) == (me, "me (other)")
    driver.wait_for_turn_end(turn_id)
    assert driver.list_event_data("ask.resolved")[0]["ask"] == answered
    assert driver.list_event_data("ask.opened")[0]["ask"]["answered_by_name"] is None
    assert driver.list_event_data("tool.completed")[0]["call"]["decision"]["source"] == me


def test_the_second_answer_is_told_who_won(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = driver.start()
    one, two = connect_client(driver, "one"), connect_client(driver, "two")
    ask = driver.wait_for_ask()
    won = resolve(driver, ask, one, choice="allow")["result"]
    lost = resolve(driver, ask, two, choice="deny")["error"]
    assert lost["data"]["code"] == "ask_resolved"
    assert lost["data"]["ask"] == won
    assert "by one (other) already" in lost["message"]
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert len(driver.list_event_data("ask.resolved")) == 1


def test_of_two_answers_at_once_exactly_one_wins(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(*(calls("TestingPermission", {}) for _ in range(ROUNDS))))
    turn_id = driver.start(max_requests=1)
    people = [connect_client(driver, name) for name in ("yes", "no")]
    answers: list[Json] = [{"choice": "allow"}, {"choice": "deny", "message": "no"}]
    winners = set()
    for _ in range(ROUNDS):
        ask = driver.wait_for_ask()
        at_once = [
            BackgroundThread(partial(resolve, driver, ask, who, **answer))
            for who, answer in zip(people, answers, strict=True)
        ]
        told = [each.result() for each in at_once]
        won = [answer["result"] for answer in told if "result" in answer]
        lost = [answer["error"] for answer in told if "error" in answer]
        assert (len(won), len(lost)) == (1, 1), told
        assert lost[0]["data"]["code"] == "ask_resolved"
        assert lost[0]["data"]["ask"] == won[0]
        stored = driver.daemon.call("ask/get", ask_id=ask["id"])
        assert stored == won[0]
        winners.add(won[0]["answered_by"])
    turn = driver.wait_for_turn_end(turn_id)
    resolved = driver.list_event_data("ask.resolved")
    assert len(resolved) == len({data["ask"]["id"] for data in resolved}) == ROUNDS
    allowed = {data["ask"]["call"]["call_id"] for data in resolved if data["ask"]["answer"]["choice"] == "allow"}
    ran = {data["call"]["call_id"] for data in driver.list_event_data("tool.started")}
    assert ran == allowed
    assert len(turn["denials"]) == ROUNDS - len(allowed)
    assert winners <= set(people)
    driver.expect_usable()


def test_an_answer_and_an_interrupt_at_once_leave_one_outcome(harness: Harness) -> None:
    for _ in range(8):
        driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
        turn_id = driver.start()
        ask = driver.wait_for_ask()
        me = connect_client(driver, "me")
        stop = BackgroundThread(partial(harness.daemon.send_rpc, "turn/interrupt", {"turn_id": turn_id}))
        told = resolve(driver, ask, me, choice="allow")
        stop.result()
        turn = driver.wait_for_turn_end(turn_id)
        stored = harness.daemon.call("ask/get", ask_id=ask["id"])
        assert stored["status"] == ("resolved" if "result" in told else "cancelled")
        assert (driver.folder / "it").exists() <= (stored["status"] == "resolved")
        assert turn["reason"] in {"interrupted", "completed"}
        assert len(driver.list_event_data("ask.resolved")) == 1
        assert len(driver.fetch_results()) == 1
        driver.expect_usable()


def test_an_answer_and_a_delete_at_once_leave_nothing(harness: Harness) -> None:
    for _ in range(5):
        driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
        driver.start()
        ask = driver.wait_for_ask()
        gone = BackgroundThread(partial(harness.daemon.send_rpc, "session/delete", {"session_id": driver.id}))
        told = resolve(driver, ask, "", choice="allow")
        assert "result" in told or told["error"]["data"]["code"] in {
            "ask_resolved",
            "ask_not_found",
            "session_not_found",
        }
        assert "result" in gone.result()
        assert driver.expect_error("ask/get", ask_id=ask["id"])["data"]["code"] == "ask_not_found"
