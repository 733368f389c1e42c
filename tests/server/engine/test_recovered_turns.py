"""Turns that go on, end or begin when a daemon comes back, or its disk."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId, TurnId
from tests.support.crash import CrashSession, find_processes
from tests.support.daemon import Daemon, wait_until
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.behaviors import Gate, Reply
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi
from tests.support.rows import reach_connection

_DONE = message(says("Done."))


def _count_runs(mark: Path) -> int:
    return mark.read_text().count("run\n") if mark.exists() else 0


def _make_endless_input(mark: Path) -> dict[str, str]:
    return {"command": f"echo run >> {mark}; sleep 1000"}


def _list_inputs(scene: CrashSession) -> list[str]:
    """The people's words, as they are stored."""
    texts = (block["text"] for each in scene.fetch_messages() for block in each["content"] if block["type"] == "text")
    return [text for text in texts if text.startswith("[")]


def test_queued_turns_start_after_the_restart_in_their_order(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create()
    first = scene.start_turn("[go] one")
    second, third = scene.start_turn("[two]", queue=True), scene.start_turn("[three]", queue=True)
    scene.wait_for("message.delta")
    scene.crash()
    reasons = [scene.wait_for_turn_end(turn_id)["reason"] for turn_id in (first, second, third)]
    assert reasons == ["interrupted", "completed", "completed"]
    assert _list_inputs(scene) == ["[go] one", "[two]", "[three]"]
    scene.expect_recovered()


def test_queued_turns_wait_for_a_turn_that_waits_for_its_ask(scene: CrashSession) -> None:
    scene.script(message(calls("TestingPermission", {}, id="toolu_a")))
    scene.create()
    first = scene.start_turn("[go] one")
    assert scene.wait_for_turn_rest(first)["status"] == "waiting"
    second = scene.start_turn("[two]", queue=True)
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    scene.crash()
    assert scene.fetch_turn(first)["status"] == "waiting"
    assert scene.fetch_turn(second)["status"] == "queued"
    (ask,) = scene.list_asks()
    scene.answer(ask)
    assert [scene.wait_for_turn_end(turn_id)["reason"] for turn_id in (first, second)] == ["completed", "completed"]
    scene.expect_recovered()


def test_a_steer_that_nobody_has_read_starts_a_turn_after_the_restart(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create()
    first = scene.start_turn("[go] one")
    scene.wait_for("message.delta")
    scene.daemon.call("turn/steer", turn_id=first, input="[steer] left")
    scene.daemon.call("turn/steer", turn_id=first, input="[steer] and up")
    scene.crash()
    assert scene.wait_for_turn_end(first)["reason"] == "interrupted"
    begun = scene.wait_for("turn.started", lambda data: data["turn"]["id"] != first)["turn"]
    assert scene.wait_for_turn_end(begun["id"])["reason"] == "completed"
    assert _list_inputs(scene) == ["[go] one", "[steer] left", "[steer] and up"]
    scene.expect_recovered()


def test_a_steer_that_nobody_has_read_joins_the_turn_that_resumes(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create(on_restart="resume")
    first = scene.start_turn("[go] one")
    scene.wait_for("message.delta")
    scene.daemon.call("turn/steer", turn_id=first, input="[steer] left")
    scene.crash()
    assert scene.wait_for_turn_end(first)["reason"] == "completed"
    assert [turn["id"] for turn in scene.list_turns()] == [first]
    assert _list_inputs(scene) == ["[go] one", "[steer] left"]
    scene.expect_recovered()


def test_a_steer_for_a_turn_that_waits_is_read_when_the_ask_is_answered(scene: CrashSession) -> None:
    scene.script(message(calls("TestingPermission", {}, id="toolu_a")))
    scene.create()
    first = scene.start_turn("[go] one")
    assert scene.wait_for_turn_rest(first)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    scene.daemon.call("turn/steer", turn_id=first, input="[steer] left")
    scene.crash()
    (ask,) = scene.list_asks()
    scene.answer(ask)
    assert scene.wait_for_turn_end(first)["reason"] == "completed"
    assert _list_inputs(scene) == ["[go] one", "[steer] left"]
    scene.expect_recovered()


def test_a_turn_whose_last_words_are_stored_has_completed(scene: CrashSession) -> None:
    scene.create()
    scene.script()
    turn_id = scene.start_turn()
    before = scene.wait_for_turn_end(turn_id)
    scene.daemon.kill()
    with scene.open_database() as database:  # as it was a moment earlier: the words are there, the end is not
        turn = database.turns.find(TurnId(turn_id))
        record = database.sessions.find(SessionId(scene.session_id))
        assert turn is not None
        assert record is not None
        unfinished = {"status": "running", "reason": None, "result_text": None, "ended_at": None}
        database.turns.update(turn.model_copy(update=unfinished))
        database.sessions.put(replace(record, status="running"))
        reach_connection(database).execute("DELETE FROM events WHERE type = 'turn.ended'")
    scene.daemon.start()
    after = scene.wait_for_turn_end(turn_id)
    assert (after["reason"], after["result_text"]) == ("completed", "Done.")
    assert after["usage"] == before["usage"]
    assert len(scene.api.requests) == 1
    scene.expect_recovered()


def _make_paused_reply(words: str) -> Reply:
    return message(says(words), stop_reason="pause_turn")


def _crash_after_two_pauses(scene: CrashSession, on_restart: str) -> str:
    gate = Gate()
    # All that it says is one message to the API, however often it pauses: these are answers to the same request.
    rest = attempts(_make_paused_reply("and look, "), message(says("half", hold(gate))), message(says("found it.")))
    scene.script(_make_paused_reply("I look, "), rest)
    scene.create(on_restart=on_restart)
    turn_id = scene.start_turn()
    scene.wait_for("message.delta", lambda data: data["text"] == "half")
    scene.crash()
    return turn_id


def test_an_answer_in_which_the_model_paused_goes_on_as_it_is(scene: CrashSession) -> None:
    turn = scene.wait_for_turn_end(_crash_after_two_pauses(scene, "resume"))
    assert (turn["reason"], turn["result_text"]) == ("completed", "I look, and look, found it.")
    first, *_, last = scene.api.requests
    # The paused messages are sent back as they are, as one, and no word of ours behind them.
    assert [each["role"] for each in last.messages] == ["user", "assistant"]
    assert last.messages[0] == first.messages[0]
    scene.expect_recovered()


def test_what_a_model_had_said_before_it_paused_is_the_result_of_a_turn_that_ends(scene: CrashSession) -> None:
    turn = scene.wait_for_turn_end(_crash_after_two_pauses(scene, "interrupt"))
    assert (turn["reason"], turn["result_text"]) == ("interrupted", "I look, and look, ")
    scene.expect_recovered()


def test_a_refusal_beside_a_call_counts_after_the_restart(scene: CrashSession) -> None:
    scene.script(message(calls("TestingPermission", {}, id="toolu_a"), stop_reason="refusal"))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    scene.crash()
    (ask,) = scene.list_asks()
    scene.answer(ask)
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "refusal")
    assert len(scene.api.requests) == 1
    scene.expect_recovered()


@pytest.mark.parametrize("on_restart", ["interrupt", "resume"])
def test_a_second_crash_in_the_middle_of_recovery_changes_nothing(scene: CrashSession, on_restart: str) -> None:
    mark = scene.folder / "mark"
    stubborn = {"command": f"trap '' TERM; echo run >> {mark}; while :; do sleep 1000; done"}
    behind = calls("Write", {"file_path": str(scene.folder / "behind"), "content": "x"}, id="toolu_b")
    scene.script(message(calls("Bash", stubborn, id="toolu_a"), behind))
    scene.create(rules={"allow": ["Bash"]}, mode="acceptEdits", on_restart=on_restart)
    turn_id = scene.start_turn()
    scene.wait_for("tool.queued", lambda data: data["call"]["tool"] == "Write")
    wait_until(lambda: _count_runs(mark) == 1)
    running = {scene.wait_for("tool.started")["call"]["call_id"]}
    scene.crash()  # ready; but the command does not end when it is asked to, so that recovery takes seconds
    assert find_processes(running)
    scene.crash()
    turn = scene.wait_for_turn_end(turn_id)
    assert turn["reason"] == ("completed" if on_restart == "resume" else "interrupted")
    assert (scene.folder / "behind").exists() == (on_restart == "resume")
    assert [data["call"]["tool_use_id"] for data in scene.list_events("tool.completed")] == ["toolu_a", "toolu_b"]
    assert len(scene.list_events("turn.ended")) == 1
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_method_that_touches_a_session_waits_for_its_recovery(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    stubborn = {"command": f"trap '' TERM; echo run >> {mark}; while :; do sleep 1000; done"}
    scene.script(message(calls("Bash", stubborn, id="toolu_a")))
    scene.create(rules={"allow": ["Bash"]})
    scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    scene.crash()
    found = scene.daemon.call("session/messages", session_id=scene.session_id)["messages"]
    assert [each["role"] for each in found] == ["user", "assistant", "user"]
    assert [turn["reason"] for turn in scene.list_turns()] == ["interrupted"]
    scene.expect_recovered()


def test_a_stop_in_the_middle_of_a_turn_is_like_a_crash_to_it(scene: CrashSession) -> None:
    mark = scene.folder / "mark"
    scene.script(message(calls("Bash", _make_endless_input(mark), id="toolu_a")))
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    running = {scene.wait_for("tool.started")["call"]["call_id"]}
    assert scene.daemon.stop() == 0
    assert not find_processes(running), "a daemon that stops in good order leaves nothing running"
    scene.daemon.start()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert "outcome unknown" in scene.fetch_results()["toolu_a"]
    scene.expect_recovered()
    assert _count_runs(mark) == 1


def test_a_turn_goes_on_after_a_stop_where_the_session_resumes(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    scene.wait_for("message.delta")
    scene.restart_gracefully()
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    scene.expect_recovered()


def test_asks_stay_open_over_a_stop(scene: CrashSession) -> None:
    scene.script(message(*(calls("TestingPermission", {}, id=f"toolu_{name}") for name in "ab")))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    wait_until(lambda: len(scene.list_asks()) == 2)
    before = scene.list_asks()
    scene.restart_gracefully()
    assert scene.list_asks() == before
    assert scene.fetch_turn(turn_id)["status"] == "waiting"
    for ask in before:
        scene.answer(ask)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.fetch_results() == {"toolu_a": "The test ran.", "toolu_b": "The test ran."}
    scene.expect_recovered()


def test_a_session_that_was_evicted_comes_back_with_the_same_history(
    api: ScriptedApi, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**api.environment, "OSTLER_TESTING": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "file").write_text("é – \u2028 words\n")
    with InProcessDaemon(home, settings={"turns.evict_seconds": 0.1, "model.name": "claude-sonnet-5"}) as daemon:
        scene = CrashSession(daemon, api, tmp_path)
        read = message(says("Look: é"), calls("Read", {"file_path": str(tmp_path / "file")}, id="toolu_a"))
        scene.script(read, _DONE, message(calls("Bash", {"command": "echo ä; exit 3"})))
        scene.create(rules={"allow": ["Bash"]})
        assert scene.wait_for_turn_end(scene.start_turn())["reason"] == "completed"
        engine = daemon.running.engine
        for words in ("[go] on", "[go] on and on"):
            wait_until(lambda: engine.live == 0)
            assert scene.wait_for_turn_end(scene.start_turn(words))["reason"] == "completed"
        assert [len(request.messages) for request in api.requests] == [1, 3, 5, 7, 9]
        assert api.prefix_changes == []
        scene.expect_recovered()


def test_a_mistake_of_the_daemon_fails_the_turn_and_the_session_goes_on(scene: CrashSession) -> None:
    scene.script(message(calls("TestingPermission", {}, id="toolu_a")))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    scene.daemon.kill()
    with scene.open_database() as database:  # an option that no daemon knows: nobody has thought of that
        options = {**database.turns.load_input(TurnId(turn_id)), "speed": 3}
        reach_connection(database).execute(
            "UPDATE turns SET input_json = ? WHERE id = ?", (json.dumps(options), turn_id)
        )
    scene.daemon.start()
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"]["code"]) == ("failed", "internal_error")
    assert "TypeError" not in str(turn)
    assert [ask["status"] for ask in scene.list_asks(None)] == ["cancelled"]
    scene.expect_recovered()


@contextmanager
def _block_writes(daemon: Daemon) -> Iterator[None]:
    """No file of the daemon's can be written: to SQLite that is an I/O error."""
    none, whatever = (1, resource.RLIM_INFINITY), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, none)
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, whatever)


def _is_ready(scene: CrashSession) -> bool:
    return scene.daemon.send_http("GET", "/readyz").status == 200


def test_a_turn_that_cannot_be_stored_ends_when_the_disk_has_healed(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for("message.delta")
    with _block_writes(scene.daemon):
        gate.open()
        wait_until(lambda: not _is_ready(scene))
        refused = scene.daemon.expect_error("turn/start", session_id=scene.session_id, input="More.")
        assert refused["data"]["code"] in {"storage_error", "read_only"}
        assert scene.fetch_session()["id"] == scene.session_id, "what is stored can be read"
    wait_until(lambda: _is_ready(scene))
    turn = scene.wait_for_turn_end(turn_id)
    assert turn["reason"] in {"interrupted", "completed"}
    scene.expect_recovered()


def test_a_turn_goes_on_after_a_disk_that_was_full_where_the_session_resumes(scene: CrashSession) -> None:
    gate = Gate()
    scene.script(attempts(message(says("So ", hold(gate), "far.")), _DONE))
    scene.create(on_restart="resume")
    turn_id = scene.start_turn()
    scene.wait_for("message.delta")
    with _block_writes(scene.daemon):
        gate.open()
        wait_until(lambda: not _is_ready(scene))
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    scene.expect_recovered()


def test_an_ask_is_still_open_after_a_disk_that_was_full(scene: CrashSession) -> None:
    scene.script(message(calls("TestingPermission", {}, id="toolu_a")))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    (ask,) = scene.list_asks()
    with _block_writes(scene.daemon):
        answer = {"choice": "allow"}
        refused = scene.daemon.expect_error("ask/resolve", ask_id=ask["id"], answer=answer)
        assert refused["data"]["code"] in {"storage_error", "read_only"}
    wait_until(lambda: _is_ready(scene))
    assert scene.list_asks() == [ask], "an answer that was refused was not given"
    scene.answer(ask)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    scene.expect_recovered()


def test_a_command_that_runs_when_the_disk_is_full_is_not_run_again(scene: CrashSession) -> None:
    mark, gate = scene.folder / "mark", scene.folder / "gate"
    waits = {"command": f"echo run >> {mark}; until [ -e {gate} ]; do sleep 0.05; done"}
    scene.script(message(calls("Bash", waits, id="toolu_a")))
    scene.create(rules={"allow": ["Bash"]})
    turn_id = scene.start_turn()
    wait_until(lambda: _count_runs(mark) == 1)
    with _block_writes(scene.daemon):
        gate.touch()
        wait_until(lambda: not _is_ready(scene))
    assert scene.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    scene.expect_recovered()
    assert _count_runs(mark) == 1
