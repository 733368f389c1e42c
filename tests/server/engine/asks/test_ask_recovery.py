"""What becomes of asks when the daemon is killed: the second half of the table in execution.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.ids import AskId, Cursor, TurnId
from tests.support.crash import CrashSession
from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, calls_raw, hold, message, says
from tests.support.model_replies import DONE
from tests.support.rows import reach_connection


def _make_marking_input(mark: Path) -> dict[str, Any]:
    return {"command": f"echo run >> {mark}"}


def _count_runs(mark: Path) -> int:
    return mark.read_text().count("run\n") if mark.exists() else 0


def _wait_for_ask(scene: CrashSession, turn_id: str) -> dict[str, Any]:
    """The one ask that the turn waits for, in its message that is complete."""
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    (ask,) = scene.list_asks()
    return ask


def test_an_open_ask_is_still_open_and_its_answer_goes_on_with_the_turn(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(says("May I?"), calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    before = _wait_for_ask(scene, turn_id)
    scene.crash()
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    session = scene.fetch_session()
    assert session["status"] == "waiting"
    assert [ask["id"] for ask in session["asks"]] == [before["id"]]
    assert scene.list_asks() == [before]
    assert _count_runs(mark) == 0
    assert scene.answer(before)["status"] == "resolved"
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert _count_runs(mark) == 1
    assert scene.list_events("message.aborted") == []
    scene.expect_recovered()


def test_an_ask_outlives_three_crashes(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    before = _wait_for_ask(scene, turn_id)
    for _ in range(3):
        scene.crash()
        assert scene.list_asks() == [before]
    scene.answer(before)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert _count_runs(mark) == 1
    scene.expect_recovered()


def test_a_no_after_the_crash_ends_the_turn(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.crash()
    scene.answer(ask, "deny")
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert "said no" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_changed_input_after_the_crash_is_what_runs(scene: CrashSession) -> None:
    mark, other = scene.folder / "mark", scene.folder / "other"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.crash()
    scene.answer(ask, input=_make_marking_input(other))
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert (_count_runs(mark), _count_runs(other)) == (0, 1)
    scene.expect_recovered()


@pytest.mark.parametrize(("choice", "reason"), [("allow", "completed"), ("deny", "interrupted")])
def test_an_ask_stays_open_though_its_file_has_changed_while_the_daemon_was_dead(
    scene: CrashSession, choice: str, reason: str
) -> None:
    file = scene.folder / "a.txt"
    file.write_text("alpha\n")
    change = {"file_path": str(file), "old_string": "alpha", "new_string": "beta"}
    read = calls("Read", {"file_path": str(file)})
    scene.script(message(read), message(calls("Edit", change, id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: "toolu_a" in str(data["message"]["content"]))
    (ask,) = scene.list_asks()
    scene.daemon.kill()
    file.write_text("alpha\ngamma\n")
    scene.daemon.start()
    scene.fetch_session()  # waits for the recovery
    assert scene.list_asks() == [ask]
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    scene.answer(ask, choice)
    assert scene.wait_for_turn_end(turn_id)["reason"] == reason
    assert file.read_text() == "alpha\ngamma\n"
    assert ("said no" in scene.fetch_results()["toolu_a"]) == (choice == "deny")
    scene.expect_recovered()


def test_an_interrupt_after_the_crash_cancels_the_ask(scene: CrashSession) -> None:
    scene.script(message(calls("Bash", {"command": "touch it"}, id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    _wait_for_ask(scene, turn_id)
    scene.crash()
    scene.daemon.call("turn/interrupt", turn_id=turn_id)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert [ask["status"] for ask in scene.list_asks(None)] == ["cancelled"]
    scene.expect_recovered()


def test_a_deny_rule_that_came_after_the_crash_beats_the_answer(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.crash()
    rule = f"Bash({_make_marking_input(mark)['command']})"
    scene.daemon.call("session/update", session_id=scene.session_id, rules={"deny": [rule]})
    scene.answer(ask)
    turn = scene.wait_for_turn_end(turn_id)
    assert turn["reason"] == "completed"
    assert [denial["tool"] for denial in turn["denials"]] == ["Bash"]
    assert "denied" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_a_call_queued_behind_an_open_ask_runs_when_the_turn_goes_on(scene: CrashSession) -> None:
    mark, later_file = scene.folder / "mark", scene.folder / "behind"
    write = calls("Write", {"file_path": str(later_file), "content": "written"}, id="toolu_b")
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a"), write))
    scene.create(mode="acceptEdits")
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    scene.crash()
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    assert not later_file.exists()
    scene.answer(ask)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert (_count_runs(mark), later_file.read_text()) == (1, "written")
    assert len(scene.list_events("tool.queued")) == 2
    scene.expect_recovered()


@pytest.mark.parametrize(
    ("raw", "words"),
    [('{"oops', "not a JSON object"), ('{"a":' + "[" * 100 + "]" * 100 + "}", "more than can be read")],
    ids=["broken", "over a limit"],
)
def test_a_call_that_cannot_be_read_is_not_run_after_the_crash_either(
    scene: CrashSession, raw: str, words: str
) -> None:
    """With nothing at all as its input it would be valid."""
    asks_first = calls("Bash", _make_marking_input(scene.folder / "mark"), id="toolu_a")
    scene.script(message(asks_first, calls_raw("TestingPermission", raw, id="toolu_b")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "TestingPermission")
    scene.crash()
    scene.answer(ask)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert words in scene.fetch_results()["toolu_b"]
    assert len(scene.list_asks(None)) == 1
    scene.expect_recovered()


def test_an_ask_keeps_the_turn_alive_beside_a_call_whose_outcome_is_unknown(scene: CrashSession) -> None:
    """The first call ran when the ask of the second was open: safe calls do both at once."""
    scene.script(message(*(calls("TestingPermission", {}, id=f"toolu_{name}") for name in "abc")))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    for name in "abc":
        scene.wait_for("tool.queued", lambda data, name=name: data["call"]["tool_use_id"] == f"toolu_{name}")  # type: ignore[misc]
    first, second, third = scene.list_asks()
    scene.answer(first)
    scene.wait_for("tool.completed")
    scene.crash()
    assert scene.list_asks() == [second, third]
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    scene.answer(third)
    scene.wait_for("tool.completed", lambda data: data["call"]["tool_use_id"] == "toolu_c")
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    scene.answer(second)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.fetch_results() == {f"toolu_{name}": "The test ran." for name in "abc"}
    scene.expect_recovered()


def test_an_answer_whose_call_had_not_started_goes_on_by_itself(own_harness: Callable[..., Harness]) -> None:
    """The changed input may not run beside the first call: it is answered, and stands there until that one ends."""
    harness = own_harness()
    driver = harness.open_session()
    first = calls("Gate", {"path": driver.get_gate_path("first"), "safe": True}, id="toolu_a")
    asked = calls("AskingGate", {"path": driver.get_gate_path("asked"), "safe": True}, id="toolu_b")
    harness.api.script(driver.name, message(first, asked), otherwise=DONE)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.wait_at_gate("first")
    driver.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    changed = {"path": driver.write_file("changed"), "safe": False}
    assert driver.answer(ask, "allow", input=changed)["status"] == "resolved"
    harness.restart()
    turn = harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)
    assert (turn["status"], turn["reason"]) == ("ended", "completed")
    unknown, passed = driver.fetch_result_texts()
    assert "outcome unknown" in unknown
    assert passed == "passed changed"
    assert [(driver.folder / f"{name}.here").exists() for name in ("first", "asked", "changed")] == [True, False, True]
    driver.expect_usable()


def _settle_in_database(scene: CrashSession, ask_id: str, turn_id: str, **settled: Any) -> None:
    """What is stored when an ask was settled and its call has not heard of it: the moment is too short to be met."""
    with scene.open_database() as database:
        ask, turn = database.asks.find(AskId(ask_id)), database.turns.find(TurnId(turn_id))
        assert ask is not None
        assert turn is not None
        assert database.asks.settle(ask.model_copy(update=settled))
        database.turns.update(turn.model_copy(update={"status": "running"}))


def test_a_time_limit_that_had_passed_counts_though_its_call_had_not_heard_of_it(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.daemon.kill()
    denied = {"choice": "deny"}
    _settle_in_database(scene, ask["id"], turn_id, status="expired", answer=denied, answered_by="time limit")
    scene.daemon.start()
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert "Nobody answered in time" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_a_call_whose_ask_was_answered_just_before_the_crash_runs_at_most_once_and_is_not_lost(
    scene: CrashSession,
) -> None:
    """Killed as soon as the answer is acknowledged: wherever that was, nothing is done twice or forgotten."""
    mark = scene.folder / "mark"
    scene.script(*(message(calls("Bash", _make_marking_input(mark), id=f"toolu_{number}")) for number in range(2)))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    for number in range(2):
        ran = _count_runs(mark)
        assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
        (ask,) = scene.list_asks()
        scene.answer(ask)
        scene.crash()
        scene.wait_for("tool.completed", lambda data, n=number: data["call"]["tool_use_id"] == f"toolu_{n}")  # type: ignore[misc]
        assert scene.daemon.call("ask/get", ask_id=ask["id"])["status"] == "resolved"
        assert _count_runs(mark) - ran in {0, 1}
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    results = scene.fetch_results()
    unknown = sum("outcome unknown" in results[f"toolu_{number}"] for number in range(2))
    assert 2 - unknown <= _count_runs(mark) <= 2
    scene.expect_recovered()


def test_an_open_ask_of_a_message_that_was_cut_is_cancelled(scene: CrashSession) -> None:
    gate = Gate()
    (scene.folder / "file").write_text("words\n")
    read = calls("Read", {"file_path": str(scene.folder / "file")}, id="toolu_a")
    scene.script(message(read, calls("TestingPermission", {}, id="toolu_b"), says("So ", hold(gate), "far.")))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("tool.completed")
    ask = scene.wait_for("ask.opened")["ask"]
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert scene.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    refused = scene.daemon.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    assert refused["data"]["code"] == "ask_resolved"
    results = scene.fetch_results()
    assert "words" in results["toolu_a"]
    assert "before it started" in results["toolu_b"]
    scene.expect_recovered()


def test_a_cut_message_with_a_cancelled_ask_goes_back_to_the_model_where_the_session_resumes(
    scene: CrashSession,
) -> None:
    gate = Gate()
    (scene.folder / "file").write_text("words\n")
    read = calls("Read", {"file_path": str(scene.folder / "file")}, id="toolu_a")
    scene.script(message(read, calls("TestingPermission", {}, id="toolu_b"), says("So ", hold(gate), "far.")))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    scene.wait_for("tool.completed")
    scene.wait_for("ask.opened")
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [ask["status"] for ask in scene.list_asks(None)] == ["cancelled"]
    scene.expect_recovered()


def test_a_time_limit_that_passed_while_the_daemon_was_dead_denies_after_the_restart(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.daemon.kill()
    with scene.open_database() as database:
        stored = database.asks.find(AskId(ask["id"]))
        assert stored is not None
        reach_connection(database).execute("DELETE FROM asks WHERE id = ?", (stored.id,))
        database.asks.open_ask(stored.model_copy(update={"expires_at": stored.opened_at}), Cursor(1))
    scene.daemon.start()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.daemon.call("ask/get", ask_id=ask["id"])["status"] == "expired"
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_an_ask_whose_tool_is_forbidden_after_the_crash_is_cancelled_and_the_turn_goes_on(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_marking_input(mark), id="toolu_a")))
    scene.api.may_rewrite = True  # the tools that the model is told of change
    scene.create()
    turn_id = scene.start_turn()
    ask = _wait_for_ask(scene, turn_id)
    scene.daemon.call("session/update", session_id=scene.session_id, rules={"deny": ["Bash"]})
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.daemon.call("ask/get", ask_id=ask["id"])["status"] == "cancelled"
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_what_a_request_took_is_counted_though_the_daemon_died_right_after_it(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(message(calls("Bash", {"command": "touch it"}, id="toolu_a"), hold(gate)))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("ask.opened")
    gate.open()
    ask = _wait_for_ask(scene, turn_id)
    assert scene.wait_for("usage.updated")["turn"]["input_tokens"] == 100
    scene.crash()
    assert scene.fetch_turn(turn_id)["usage"]["input_tokens"] == 100
    scene.answer(ask)
    assert scene.wait_for_turn_end(turn_id)["usage"]["input_tokens"] == 200
    assert scene.fetch_session()["usage"]["input_tokens"] == 200
    scene.expect_recovered()
