"""`run`, `turn/wait`, and keys that make retries safe."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.driver import BackgroundThread, Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says

WORDS = message(says("Done."))


def run(driver: SessionDriver, text: str = "Go.", **params: Any) -> Json:
    """In a new session in the folder of this one, with its script."""
    where = {} if "session_id" in params else {"cwd": str(driver.folder)}
    result: Json = driver.daemon.call("run", input=driver.tag_input(text), **where, **params)
    return result


def test_run_makes_a_session_and_comes_back_at_the_end(harness: Harness) -> None:
    driver = harness.open_session(WORDS)
    result = run(driver, title="headless")
    assert (result["turn"]["status"], result["turn"]["result_text"]) == ("ended", "Done.")
    session = harness.daemon.call("session/get", session_id=result["session_id"])
    assert (session["title"], session["cwd"], session["on_ask"]) == ("headless", str(driver.folder), "deny")
    assert result["session_id"] != driver.id
    harness.daemon.call("session/delete", session_id=result["session_id"])


def test_run_in_a_session_that_exists_goes_on_with_it(harness: Harness) -> None:
    driver = harness.open_session(WORDS, message(says("Again.")))
    driver.run_turn()
    result = run(driver, session_id=driver.id)
    assert (result["session_id"], result["turn"]["result_text"]) == (driver.id, "Again.")
    assert driver.requests[1].message_count == 3
    driver.wait("turn.ended", lambda data: data["turn"]["id"] == result["turn"]["id"])
    driver.expect_usable()


def test_run_denies_what_would_be_asked(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn = run(driver, session_id=driver.id)["turn"]
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    [denial] = turn["denials"]
    assert (denial["tool"], denial["input"], denial["allow_with"]) == (
        "Bash",
        {"command": "touch it"},
        "Bash(touch it)",
    )
    assert not (driver.folder / "it").exists()
    assert "Bash(touch it)" in driver.fetch_result_texts()[0]
    # That was said of the turn, not of the session.
    assert driver.fetch_state()["on_ask"] == "ask"
    harness.api.script(driver.name, otherwise=message(calls("Bash", {"command": "touch it"})))
    driver.start()
    assert driver.wait_for_ask()["status"] == "open"


def test_nothing_is_planned_in_a_turn_in_which_nobody_could_approve_it(harness: Harness) -> None:
    driver = harness.open_session(message(calls("EnterPlanMode", {})), WORDS)
    assert run(driver, session_id=driver.id)["turn"]["reason"] == "completed"
    assert "nobody could approve a plan" in driver.fetch_result_texts()[0]
    assert driver.fetch_state()["mode"] == "default"


def test_run_comes_back_when_it_waits_for_an_ask(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), WORDS)
    result = run(driver, session_id=driver.id, on_ask="ask")
    assert result["turn"]["status"] == "waiting"
    driver.answer(driver.wait_for_ask(), "allow")
    assert driver.wait_for_turn_end(result["turn"]["id"])["reason"] == "completed"
    assert (driver.folder / "it").exists()
    driver.expect_usable()


def test_run_with_a_form_that_cannot_be_used_makes_no_session(harness: Harness) -> None:
    driver = harness.open_session()
    before = harness.daemon.call("session/list")["sessions"]
    error = driver.expect_error("run", cwd=str(driver.folder), input="Go.", output_schema={"type": "string"})
    assert error["data"]["errors"][0]["path"] == "output_schema"
    assert harness.daemon.call("session/list")["sessions"] == before


def test_run_needs_a_folder_or_a_session_and_not_both(harness: Harness) -> None:
    driver = harness.open_session()
    for params in ({}, {"cwd": str(driver.folder), "session_id": driver.id}):
        assert harness.daemon.expect_error("run", input="Go.", **params)["code"] == -32602


def test_run_in_a_session_whose_turn_runs_is_refused(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Wait ", hold(gate))))
    turn_id = driver.start()
    assert driver.expect_error("run", session_id=driver.id, input="Go.")["data"]["code"] == "turn_running"
    gate.open()
    driver.wait_for_turn_end(turn_id)


def test_a_caller_that_leaves_does_not_stop_the_turn(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Slowly ", hold(gate), "done.")))
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "run",
        "params": {"session_id": driver.id, "input": driver.tag_input("Go.")},
    }
    connection = harness.daemon.open_connection()
    headers = {"Authorization": f"Bearer {harness.daemon.token}", "Content-Type": "application/json"}
    connection.request("POST", "/rpc", json.dumps(call).encode(), headers)
    driver.wait("message.delta")
    connection.close()
    gate.open()
    turn = driver.wait_for_turn_end()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Slowly done.")
    driver.expect_usable()


# Keys.


def test_the_same_key_gives_the_same_turn(harness: Harness) -> None:
    driver = harness.open_session(WORDS)
    first = driver.start("Go.", idempotency_key="key-1" + driver.name)
    again = driver.start("Go.", idempotency_key="key-1" + driver.name)
    assert first == again
    driver.wait_for_turn_end(first)
    assert driver.start("Go.", idempotency_key="key-1" + driver.name) == first
    assert len(driver.requests) == 1
    error = driver.expect_error(
        "turn/start", session_id=driver.id, input="Something else.", idempotency_key="key-1" + driver.name
    )
    assert error["data"]["code"] == "conflict"
    driver.expect_usable()


def test_duplicates_at_the_same_time_start_one_turn(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("One ", hold(gate), "turn.")))
    key = f"key-2{driver.name}"
    callers = [BackgroundThread(lambda: driver.start("Go.", idempotency_key=key)) for _ in range(8)]
    turns = {caller.result() for caller in callers}
    assert len(turns) == 1
    gate.open()
    driver.wait_for_turn_end(turns.pop())
    assert len(driver.requests) == 1
    driver.expect_usable()


def test_duplicates_of_run_wait_for_the_same_turn(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("One ", hold(gate), "run.")))
    key = f"key-3{driver.name}"
    callers = [BackgroundThread(lambda: run(driver, idempotency_key=key)) for _ in range(4)]
    gate.wait_until_reached()
    gate.open()
    results = [caller.result() for caller in callers]
    assert len({(result["session_id"], result["turn"]["id"]) for result in results}) == 1
    assert {result["turn"]["result_text"] for result in results} == {"One run."}
    assert len(driver.requests) == 1
    assert run(driver, idempotency_key=key) == results[0]
    error = harness.daemon.expect_error("run", input="Other.", cwd=str(driver.folder), idempotency_key=key)
    assert error["data"]["code"] == "conflict"
    harness.daemon.call("session/delete", session_id=results[0]["session_id"])


def test_a_key_is_remembered_over_a_crash(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(WORDS)
    first = run(driver, idempotency_key="key-4")
    started = harness.open_session(WORDS)
    turn_id = started.start("Go.", idempotency_key="key-5")
    started.wait_for_turn_end(turn_id)
    harness.restart()
    again = run(driver, idempotency_key="key-4")
    assert (again["session_id"], again["turn"]["id"]) == (first["session_id"], first["turn"]["id"])
    assert again["turn"]["result_text"] == "Done."
    assert started.start("Go.", idempotency_key="key-5") == turn_id
    assert (len(driver.requests), len(started.requests)) == (1, 1)
    assert harness.daemon.expect_error("run", input="x", cwd="/", idempotency_key="key-4")["data"]["code"] == "conflict"


# turn/wait.


def test_wait_comes_back_when_the_turn_ends(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Wait ", hold(gate))))
    turn_id = driver.start()
    waiting = BackgroundThread(lambda: harness.daemon.call("turn/wait", turn_id=turn_id))
    driver.wait("message.delta")
    gate.open()
    assert waiting.result()["reason"] == "completed"
    assert harness.daemon.call("turn/wait", turn_id=turn_id)["reason"] == "completed"


def test_wait_comes_back_when_the_turn_asks(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn_id = driver.start()
    assert harness.daemon.call("turn/wait", turn_id=turn_id)["status"] == "waiting"
    driver.answer(driver.wait_for_ask(), "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"


def test_wait_gives_the_turn_as_it_is_at_its_time_out(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(says("Wait ", hold(gate))))
    turn_id = driver.start()
    assert harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=50)["status"] == "running"
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    gate.open()
    driver.wait_for_turn_end(turn_id)
    assert harness.daemon.call("turn/get", turn_id=turn_id)["reason"] == "completed"
