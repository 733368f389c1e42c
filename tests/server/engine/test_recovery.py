"""What becomes of messages and calls when the daemon is killed: the first half of the table in execution.md."""

from pathlib import Path
from typing import Any

from tests.support.crash import Scene, left_running
from tests.support.daemon import wait_until
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE


def _endless(mark: Path) -> dict[str, Any]:
    """A command that says that it began, with a child that has left its group, and that never ends."""
    return {"command": f"setsid sleep 1000 & echo run >> {mark}; sleep 1000"}


def _runs(mark: Path) -> int:
    return mark.read_text().count("run\n") if mark.exists() else 0


def test_a_message_that_was_streaming_with_no_call_started_is_out_of_the_history(scene: Scene) -> None:
    gate = Gate()
    scene.script(attempts(message(says("Half a ", hold(gate), "sentence.")), DONE))
    scene.create()
    turn_id = scene.begin()
    started = scene.wait_for("message.started")
    scene.wait_for("message.delta")
    scene.crash()
    turn = scene.ends(turn_id)
    assert turn["reason"] == "interrupted"
    assert [aborted["message"]["id"] for aborted in scene.events("message.aborted")] == [started["message"]["id"]]
    assert [each["role"] for each in scene.messages()] == ["user"]
    scene.expect_whole()


def test_an_aborted_message_is_asked_for_again_where_the_session_resumes(scene: Scene) -> None:
    gate = Gate()
    scene.script(attempts(message(says("Half a ", hold(gate), "sentence.")), DONE))
    scene.create(on_restart="resume")
    turn_id = scene.begin()
    scene.wait_for("message.delta")
    scene.crash()
    turn = scene.ends(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert len(scene.events("message.aborted")) == 1
    assert [each["role"] for each in scene.messages()] == ["user", "assistant"]
    scene.expect_whole()


def test_a_call_that_only_waited_in_an_aborted_message_is_not_run(scene: Scene) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    asked = calls("Bash", {"command": f"echo run >> {mark}"}, id="toolu_asked")
    scene.script(attempts(message(asked, says("So ", hold(gate), "far.")), DONE))
    scene.create()
    turn_id = scene.begin()
    scene.wait_for("ask.opened")
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    assert [ask["status"] for ask in scene.asks(None)] == ["cancelled"]
    assert len(scene.events("message.aborted")) == 1
    assert [call["call"]["is_error"] for call in scene.events("tool.completed")] == [True]
    scene.expect_whole()
    assert _runs(mark) == 0


def test_a_message_that_was_streaming_with_a_call_started_is_cut_after_it_and_kept(scene: Scene) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    begun = message(says("First."), calls("Bash", _endless(mark), id="toolu_a"), says("Then ", hold(gate), "more."))
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.begin()
    wait_until(lambda: _runs(mark) == 1)
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    kept = scene.messages()[1]
    assert [block["type"] for block in kept["content"]] == ["text", "tool_use"]
    assert kept["content"][0]["text"] == "First."
    assert scene.events("message.aborted") == []
    assert "interrupted, outcome unknown" in scene.results()["toolu_a"]
    scene.expect_whole()
    assert _runs(mark) == 1


def test_a_cut_message_is_sent_back_to_the_model_where_the_session_resumes(scene: Scene) -> None:
    gate, mark = Gate(), scene.folder / "mark"
    begun = message(says("First."), calls("Bash", _endless(mark), id="toolu_a"), says("Then ", hold(gate), "more."))
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]}, on_restart="resume")
    turn_id = scene.begin()
    wait_until(lambda: _runs(mark) == 1)
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "completed"
    _, second = scene.api.requests
    assert [block["type"] for block in second.messages[1]["content"]] == ["text", "tool_use"]
    scene.expect_whole()
    assert _runs(mark) == 1


def test_a_completed_call_of_a_cut_message_keeps_its_result(scene: Scene) -> None:
    gate = Gate()
    begun = message(calls("Bash", {"command": "echo well done"}, id="toolu_a"), says("Then ", hold(gate), "more."))
    scene.script(begun)
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.begin()
    scene.wait_for("tool.completed")
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    assert scene.results() == {"toolu_a": "well done"}
    scene.expect_whole()


def test_a_completed_call_is_kept_beside_one_whose_outcome_is_unknown(scene: Scene) -> None:
    first, second = scene.folder / "first", scene.folder / "second"
    quick = calls("Bash", {"command": f"echo run >> {first}; echo well done"}, id="toolu_a")
    scene.script(message(quick, calls("Bash", _endless(second), id="toolu_b")))
    scene.create(rules={"allow": ["Bash"]}, on_restart="resume")
    turn_id = scene.begin()
    wait_until(lambda: _runs(second) == 1)
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "completed"
    results = scene.results()
    assert results["toolu_a"] == "well done"
    assert "interrupted, outcome unknown" in results["toolu_b"]
    scene.expect_whole()
    assert (_runs(first), _runs(second)) == (1, 1)


def test_a_call_that_ran_is_never_run_again_and_what_it_left_behind_is_ended(scene: Scene) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _endless(mark), id="toolu_a")))
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.begin()
    wait_until(lambda: _runs(mark) == 1)
    running = {scene.wait_for("tool.started")["call"]["call_id"]}
    assert len(left_running(running)) >= 3
    scene.daemon.kill()
    assert left_running(running), "what it had started is alive, so its end is the next daemon's work"
    scene.daemon.start()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    wait_until(lambda: not left_running(running))
    result = scene.results()["toolu_a"]
    assert "interrupted, outcome unknown" in result
    (completed,) = scene.events("tool.completed")
    assert completed["call"]["is_error"]
    scene.expect_whole()
    assert _runs(mark) == 1


def test_a_queued_call_is_still_queued_and_runs_where_the_session_resumes(scene: Scene) -> None:
    mark, behind = scene.folder / "mark", scene.folder / "behind"
    write = calls("Write", {"file_path": str(behind), "content": "written"}, id="toolu_b")
    scene.script(message(calls("Bash", _endless(mark), id="toolu_a"), write))
    scene.create(rules={"allow": ["Bash"]}, mode="acceptEdits", on_restart="resume")
    turn_id = scene.begin()
    wait_until(lambda: _runs(mark) == 1)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    assert not behind.exists()
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "completed"
    assert behind.read_text() == "written"
    assert "interrupted, outcome unknown" in scene.results()["toolu_a"]
    scene.expect_whole()
    assert _runs(mark) == 1


def test_a_queued_call_never_starts_where_the_turn_ends_as_interrupted(scene: Scene) -> None:
    mark, behind = scene.folder / "mark", scene.folder / "behind"
    write = calls("Write", {"file_path": str(behind), "content": "written"}, id="toolu_b")
    scene.script(message(calls("Bash", _endless(mark), id="toolu_a"), write))
    scene.create(rules={"allow": ["Bash"]}, mode="acceptEdits")
    turn_id = scene.begin()
    wait_until(lambda: _runs(mark) == 1)
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    assert "before it started" in scene.results()["toolu_b"]
    scene.expect_whole()
    assert not behind.exists()


def test_calls_that_read_side_by_side_all_have_one_result_after_a_crash(scene: Scene) -> None:
    for number in range(5):
        (scene.folder / str(number)).write_text(f"file {number}\n")
    gate = Gate()
    reads = [calls("Read", {"file_path": str(scene.folder / str(n))}, id=f"toolu_{n}") for n in range(5)]
    scene.script(message(*reads, says("Well ", hold(gate), "then.")))
    scene.create()
    turn_id = scene.begin()
    for number in range(5):
        scene.wait_for("tool.completed", lambda data, n=number: data["call"]["tool_use_id"] == f"toolu_{n}")  # type: ignore[misc]
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    results = scene.results()
    assert all(f"file {number}" in results[f"toolu_{number}"] for number in range(5))
    scene.expect_whole()


def test_a_call_that_failed_without_running_ends_once_though_its_message_is_aborted(scene: Scene) -> None:
    gate = Gate()
    unknown = calls("Nonesuch", {}, id="toolu_a")
    scene.script(attempts(message(unknown, says("So ", hold(gate), "far.")), DONE))
    scene.create()
    turn_id = scene.begin()
    scene.wait_for("tool.completed")
    scene.crash()
    assert scene.ends(turn_id)["reason"] == "interrupted"
    assert len(scene.events("message.aborted")) == 1
    (completed,) = scene.events("tool.completed")
    assert "Nonesuch" in str(completed["call"]["content"])
    scene.expect_whole()
