"""`run`, `turn/wait`, and keys that make retries safe."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.driver import Beside, Json, Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says

WORDS = message(says("Done."))


def run(talk: Talk, text: str = "Go.", **params: Any) -> Json:
    """In a new session in the folder of this one, with its script."""
    where = {} if "session_id" in params else {"cwd": str(talk.folder)}
    result: Json = talk.daemon.call("run", input=talk.input(text), **where, **params)
    return result


def test_run_makes_a_session_and_comes_back_at_the_end(stage: Stage) -> None:
    talk = stage.talk(WORDS)
    result = run(talk, title="headless")
    assert (result["turn"]["status"], result["turn"]["result_text"]) == ("ended", "Done.")
    session = stage.daemon.call("session/get", session_id=result["session_id"])
    assert (session["title"], session["cwd"], session["on_ask"]) == ("headless", str(talk.folder), "deny")
    assert result["session_id"] != talk.id
    stage.daemon.call("session/delete", session_id=result["session_id"])


def test_run_in_a_session_that_exists_goes_on_with_it(stage: Stage) -> None:
    talk = stage.talk(WORDS, message(says("Again.")))
    talk.turn()
    result = run(talk, session_id=talk.id)
    assert (result["session_id"], result["turn"]["result_text"]) == (talk.id, "Again.")
    assert talk.requests[1].message_count == 3
    talk.wait("turn.ended", lambda data: data["turn"]["id"] == result["turn"]["id"])
    talk.is_usable()


def test_run_denies_what_would_be_asked(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn = run(talk, session_id=talk.id)["turn"]
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    [denial] = turn["denials"]
    assert (denial["tool"], denial["input"], denial["allow_with"]) == (
        "Bash",
        {"command": "touch it"},
        "Bash(touch:*)",
    )
    assert not (talk.folder / "it").exists()
    assert "Bash(touch:*)" in talk.result_texts()[0]
    # That was said of the turn, not of the session.
    assert talk.state()["on_ask"] == "ask"
    stage.api.script(talk.name, otherwise=message(calls("Bash", {"command": "touch it"})))
    talk.start()
    assert talk.ask()["status"] == "open"


def test_run_comes_back_when_it_waits_for_an_ask(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), WORDS)
    result = run(talk, session_id=talk.id, on_ask="ask")
    assert result["turn"]["status"] == "waiting"
    talk.answer(talk.ask(), "allow")
    assert talk.ended(result["turn"]["id"])["reason"] == "completed"
    assert (talk.folder / "it").exists()
    talk.is_usable()


def test_run_with_a_form_that_cannot_be_used_makes_no_session(stage: Stage) -> None:
    talk = stage.talk()
    before = stage.daemon.call("session/list")["sessions"]
    error = talk.refused("run", cwd=str(talk.folder), input="Go.", output_schema={"type": "string"})
    assert error["data"]["errors"][0]["path"] == "output_schema"
    assert stage.daemon.call("session/list")["sessions"] == before


def test_run_needs_a_folder_or_a_session_and_not_both(stage: Stage) -> None:
    talk = stage.talk()
    for params in ({}, {"cwd": str(talk.folder), "session_id": talk.id}):
        assert stage.daemon.error("run", input="Go.", **params)["code"] == -32602


def test_run_in_a_session_whose_turn_runs_is_refused(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Wait ", hold(gate))))
    turn_id = talk.start()
    assert talk.refused("run", session_id=talk.id, input="Go.")["data"]["code"] == "turn_running"
    gate.open()
    talk.ended(turn_id)


def test_a_caller_that_leaves_does_not_stop_the_turn(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Slowly ", hold(gate), "done.")))
    call = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"session_id": talk.id, "input": talk.input("Go.")}}
    connection = stage.daemon.connection()
    headers = {"Authorization": f"Bearer {stage.daemon.token}", "Content-Type": "application/json"}
    connection.request("POST", "/rpc", json.dumps(call).encode(), headers)
    talk.wait("message.delta")
    connection.close()
    gate.open()
    turn = talk.ended()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Slowly done.")
    talk.is_usable()


# Keys.


def test_the_same_key_gives_the_same_turn(stage: Stage) -> None:
    talk = stage.talk(WORDS)
    first = talk.start("Go.", idempotency_key="key-1" + talk.name)
    again = talk.start("Go.", idempotency_key="key-1" + talk.name)
    assert first == again
    talk.ended(first)
    assert talk.start("Go.", idempotency_key="key-1" + talk.name) == first
    assert len(talk.requests) == 1
    error = talk.refused("turn/start", session_id=talk.id, input="Something else.", idempotency_key="key-1" + talk.name)
    assert error["data"]["code"] == "conflict"
    talk.is_usable()


def test_duplicates_at_the_same_time_start_one_turn(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("One ", hold(gate), "turn.")))
    key = f"key-2{talk.name}"
    callers = [Beside(lambda: talk.start("Go.", idempotency_key=key)) for _ in range(8)]
    turns = {caller.result() for caller in callers}
    assert len(turns) == 1
    gate.open()
    talk.ended(turns.pop())
    assert len(talk.requests) == 1
    talk.is_usable()


def test_duplicates_of_run_wait_for_the_same_turn(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("One ", hold(gate), "run.")))
    key = f"key-3{talk.name}"
    callers = [Beside(lambda: run(talk, idempotency_key=key)) for _ in range(4)]
    gate.wait_until_reached()
    gate.open()
    results = [caller.result() for caller in callers]
    assert len({(result["session_id"], result["turn"]["id"]) for result in results}) == 1
    assert {result["turn"]["result_text"] for result in results} == {"One run."}
    assert len(talk.requests) == 1
    assert run(talk, idempotency_key=key) == results[0]
    error = stage.daemon.error("run", input="Other.", cwd=str(talk.folder), idempotency_key=key)
    assert error["data"]["code"] == "conflict"
    stage.daemon.call("session/delete", session_id=results[0]["session_id"])


def test_a_key_is_remembered_over_a_crash(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(WORDS)
    first = run(talk, idempotency_key="key-4")
    started = stage.talk(WORDS)
    turn_id = started.start("Go.", idempotency_key="key-5")
    started.ended(turn_id)
    stage.restart()
    again = run(talk, idempotency_key="key-4")
    assert (again["session_id"], again["turn"]["id"]) == (first["session_id"], first["turn"]["id"])
    assert again["turn"]["result_text"] == "Done."
    assert started.start("Go.", idempotency_key="key-5") == turn_id
    assert (len(talk.requests), len(started.requests)) == (1, 1)
    assert stage.daemon.error("run", input="x", cwd="/", idempotency_key="key-4")["data"]["code"] == "conflict"


# turn/wait.


def test_wait_comes_back_when_the_turn_ends(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Wait ", hold(gate))))
    turn_id = talk.start()
    waiting = Beside(lambda: stage.daemon.call("turn/wait", turn_id=turn_id))
    talk.wait("message.delta")
    gate.open()
    assert waiting.result()["reason"] == "completed"
    assert stage.daemon.call("turn/wait", turn_id=turn_id)["reason"] == "completed"


def test_wait_comes_back_when_the_turn_asks(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), WORDS)
    turn_id = talk.start()
    assert stage.daemon.call("turn/wait", turn_id=turn_id)["status"] == "waiting"
    talk.answer(talk.ask(), "allow")
    assert talk.ended(turn_id)["reason"] == "completed"


def test_wait_gives_the_turn_as_it_is_at_its_time_out(stage: Stage) -> None:
    gate = Gate()
    talk = stage.talk(message(says("Wait ", hold(gate))))
    turn_id = talk.start()
    assert stage.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=50)["status"] == "running"
    assert stage.daemon.call("turn/get", turn_id=turn_id)["status"] == "running"
    gate.open()
    talk.ended(turn_id)
    assert stage.daemon.call("turn/get", turn_id=turn_id)["reason"] == "completed"
