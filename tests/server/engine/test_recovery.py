"""What becomes of messages and calls when the daemon is killed: the first half of the table in execution.md."""

from pathlib import Path
from typing import Any

from tests.support.crash import CrashSession, find_processes
from tests.support.daemon import wait_until
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE


def _make_endless_input(mark: Path) -> dict[str, Any]:
    """A command that says that it began, with a child that has left its group, and that never ends."""
    return {"command": f"setsid sleep 1000 & echo run >> {mark}; sleep 1000"}


def _count_runs(mark: Path) -> int:
    return mark.read_text().count("run\n") if mark.exists() else 0


def test_a_message_that_was_streaming_with_no_call_started_is_out_of_the_history(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("Half a ", hold(gate), "sentence.")), DONE))
    scene.create()
    turn_id = scene.start_turn()
    started = scene.wait_for("message.started")
    scene.wait_for("message.delta")
    scene.crash()
    turn = scene.wait_for_turn_end(turn_id)
    assert turn["reason"] == "interrupted"
    assert [aborted["message"]["id"] for aborted in scene.list_events("message.aborted")] == [started["message"]["id"]]
    assert [each["role"] for each in scene.fetch_messages()] == ["user"]
    scene.expect_recovered()


def test_an_aborted_message_is_asked_for_again_where_the_session_resumes(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("Half a ", hold(gate), "sentence.")), DONE))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    scene.wait_for("message.delta")
    scene.crash()
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert len(scene.list_events("message.aborted")) == 1
    assert [each["role"] for each in scene.fetch_messages()] == ["user", "assistant"]
    scene.expect_recovered()


def test_a_call_that_only_waited_in_an_aborted_message_is_not_run(scene: CrashSession) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    asked = calls("Bash", {"command": f"echo run >> {mark}"}, id="toolu_asked")
    scene.script(attempts(message(asked, says("So ", hold(gate), "far.")), DONE))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("ask.opened")
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert [ask["status"] for ask in scene.list_asks(None)] == ["cancelled"]
    assert len(scene.list_events("message.aborted")) == 1
    assert [call["call"]["is_error"] for call in scene.list_events("tool.completed")] == [True]
    scene.expect_recovered()
    assert _count_runs(mark) == 0


def test_a_message_that_was_streaming_with_a_call_started_is_cut_after_it_and_kept(scene: CrashSession) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    begun = message(
        says("First."), calls("Bash", _make_endless_input(mark), id="toolu_a"), says("Then ", hold(gate), "more.")
    )
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    kept = scene.fetch_messages()[1]
    assert [block["type"] for block in kept["content"]] == ["text", "tool_use"]
    assert kept["content"][0]["text"] == "First."
    assert scene.list_events("message.aborted") == []
    assert "interrupted, outcome unknown" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_cut_message_is_sent_back_to_the_model_where_the_session_resumes(scene: CrashSession) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    begun = message(
        says("First."), calls("Bash", _make_endless_input(mark), id="toolu_a"), says("Then ", hold(gate), "more.")
    )
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]}, on_restart="resume")
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    _, second = scene.api.requests
    assert [block["type"] for block in second.messages[1]["content"]] == ["text", "tool_use"]
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_completed_call_of_a_cut_message_keeps_its_result(scene: CrashSession) -> None:
    gate = Gate()
    begun = message(calls("Bash", {"command": "echo well done"}, id="toolu_a"), says("Then ", hold(gate), "more."))
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.start_turn()
    scene.wait_for("tool.completed")
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert scene.fetch_results() == {"toolu_a": "well done"}
    scene.expect_recovered()


def test_a_completed_call_is_kept_beside_one_whose_outcome_is_unknown(scene: CrashSession) -> None:
    first, second = scene.folder / "first", scene.folder / "second"
    quick = calls("Bash", {"command": f"echo run >> {first}; echo well done"}, id="toolu_a")
    scene.script(message(quick, calls("Bash", _make_endless_input(second), id="toolu_b")))
    scene.create(rules={"allow": ["Bash"]}, on_restart="resume")
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(second) == 1)
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    results = scene.fetch_results()
    assert results["toolu_a"] == "well done"
    assert "interrupted, outcome unknown" in results["toolu_b"]
    scene.expect_recovered()
    assert (_count_runs(first), _count_runs(second)) == (1, 1)


def test_a_call_that_ran_is_never_run_again_and_what_it_left_behind_is_ended(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_endless_input(mark), id="toolu_a")))
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    running = {scene.wait_for("tool.started")["call"]["call_id"]}
    assert len(find_processes(running)) >= 3
    scene.daemon.kill()
    assert find_processes(running), "what it had started is alive, so its end is the next daemon's work"
    scene.daemon.start()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    wait_until(lambda: not find_processes(running))
    result = scene.fetch_results()["toolu_a"]
    assert "interrupted, outcome unknown" in result
    (completed,) = scene.list_events("tool.completed")
    assert completed["call"]["is_error"]
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_queued_call_is_still_queued_and_runs_where_the_session_resumes(scene: CrashSession) -> None:
    mark, later_file = scene.folder / "mark", scene.folder / "behind"
    write = calls("Write", {"file_path": str(later_file), "content": "written"}, id="toolu_b")
    scene.script(message(calls("Bash", _make_endless_input(mark), id="toolu_a"), write))
    scene.create(rules={"allow": ["Bash"]}, mode="acceptEdits", on_restart="resume")
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    assert not later_file.exists()
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert later_file.read_text() == "written"
    assert "interrupted, outcome unknown" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_queued_call_never_starts_where_the_turn_ends_as_interrupted(scene: CrashSession) -> None:
    mark, later_file = scene.folder / "mark", scene.folder / "behind"
    write = calls("Write", {"file_path": str(later_file), "content": "written"}, id="toolu_b")
    scene.script(message(calls("Bash", _make_endless_input(mark), id="toolu_a"), write))
    scene.create(rules={"allow": ["Bash"]}, mode="acceptEdits")
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert "before it started" in scene.fetch_results()["toolu_b"]
    scene.expect_recovered()
    assert not later_file.exists()


def test_calls_that_read_side_by_side_all_have_one_result_after_a_crash(scene: CrashSession) -> None:
    for number in range(5):
        (scene.folder / str(number)).write_text(f"file {number}\n")
    gate = Gate()
    reads = [calls("Read", {"file_path": str(scene.folder / str(n))}, id=f"toolu_{n}") for n in range(5)]
    scene.script(message(*reads, says("Well ", hold(gate), "then.")))
    scene.create()
    turn_id = scene.start_turn()
    for number in range(5):
        scene.wait_for("tool.completed", lambda data, n=number: data["call"]["tool_use_id"] == f"toolu_{n}")  # type: ignore[misc]
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    results = scene.fetch_results()
    assert all(f"file {number}" in results[f"toolu_{number}"] for number in range(5))
    scene.expect_recovered()


def test_a_call_that_failed_without_running_ends_once_though_its_message_is_aborted(scene: CrashSession) -> None:
    gate = Gate()
    unknown = calls("Nonesuch", {}, id="toolu_a")
    scene.script(attempts(message(unknown, says("So ", hold(gate), "far.")), DONE))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("tool.completed")
    scene.crash()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert len(scene.list_events("message.aborted")) == 1
    (completed,) = scene.list_events("tool.completed")
    assert "Nonesuch" in str(completed["call"]["content"])
    scene.expect_recovered()
