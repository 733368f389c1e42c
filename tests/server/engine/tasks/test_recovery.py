"""Tasks from one daemon to the next: found again, or known to be gone; told once, whatever happens."""

import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.caller import Caller, Refused
from tests.faults.rooms import limited_files
from tests.support.background_commands import (
    LONG,
    ended,
    notes_about,
    printed,
    processes_of,
    talk_behind,
    until,
)
from tests.support.daemon import Daemon, wait_until
from tests.support.driver import Stage, Talk, environment, is_gone
from tests.support.hooks import hooked
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.server import ScriptedApi


def test_a_daemon_that_stops_leaves_its_tasks_to_the_next(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, "echo before; until [ -e go ]; do sleep 0.05; done; echo after; exit 7")
    printed(stage.daemon, task, "before")
    left = processes_of(task)
    assert stage.daemon.stop() == 0
    assert processes_of(task) & left
    stage.daemon.start()
    talk.reconnect()
    found = stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)
    assert (found["status"], found["output_bytes"]) == ("running", 7)
    (talk.folder / "go").touch()
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", 7)
    assert stage.daemon.call("task/output", task_id=task["id"])["output"] == "before\nafter\n"
    assert processes_of(task) == set()


def test_the_next_daemon_stops_what_the_one_before_started(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    _, (task,) = talk_behind(stage, f"setsid sleep 1000 & echo begun; {LONG}")
    printed(stage.daemon, task, "begun")
    assert stage.daemon.stop() == 0
    stage.daemon.start()
    stopped = stage.daemon.call("task/stop", task_id=task["id"])
    assert (stopped["status"], stopped["error"]) == ("killed", "It was stopped by the person.")
    assert processes_of(task) == set()


def test_a_deleted_session_ends_what_an_earlier_daemon_started(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; {LONG}")
    printed(stage.daemon, task, "begun")
    stage.restart()
    stage.daemon.call("session/delete", session_id=talk.id)
    assert processes_of(task) == set()
    assert list((stage.daemon.home / "tasks").iterdir()) == []


def test_a_process_number_that_is_another_ones_now_is_no_task(own_stage: Callable[..., Stage]) -> None:
    """A start time that is not the process's own is what a number that was given away again looks like."""
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; {LONG}")
    printed(stage.daemon, task, "begun")
    stage.daemon.kill()
    with sqlite3.connect(stage.daemon.home / "ostler.db") as database:
        stored = database.execute("SELECT pid, task_json FROM tasks WHERE id = ?", (task["id"],)).fetchone()
        # Of another call too: else it would be found by its mark.
        changed = json.dumps({**json.loads(stored[1]), "call_id": "m_other#0"})
        database.execute("UPDATE tasks SET start_time = '1', task_json = ? WHERE id = ?", (changed, task["id"]))
    database.close()
    stage.daemon.start()
    talk.reconnect(0)
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", None)
    assert over["error"] == "It was gone when the daemon came back, and nobody knows how it ended."
    assert not is_gone(stored[0])  # a stranger's process is left alone
    stage.daemon.end_commands()


def test_a_task_that_was_found_again_and_is_killed_from_elsewhere_was_not_gone_before(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; {LONG}")
    printed(stage.daemon, task, "begun")
    stage.restart()
    assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    # Stopped first: the shell around it must not see the others go, and write that down.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in processes_of(task):
            os.kill(pid, number)
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", None)
    assert over["error"] == "It was killed from elsewhere, before it could say how it ended."


def test_what_a_dead_task_left_running_is_ended_by_the_next_daemon(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    leaving = "setsid bash -c 'echo $$ >child; exec sleep 1000' &"
    talk, (task,) = talk_behind(stage, f"{leaving} until [ -e go ]; do sleep 0.05; done; exit 5")
    child = int(talk.written("child"))
    stage.daemon.kill()
    (talk.folder / "go").touch()
    wait_until(lambda: processes_of(task) <= {child})
    stage.daemon.start()
    talk.reconnect(0)
    over = ended(talk, task)
    assert (over["status"], over["exit_code"]) == ("failed", 5)
    assert is_gone(child)


def test_a_task_whose_file_is_gone_still_ends_and_says_nothing(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (kept, lost) = talk_behind(stage, until(Path("go")), until(Path("go")))
    _remove_files(stage, kept["call_id"])
    assert stage.daemon.call("task/output", task_id=kept["id"], offset=3)["next_offset"] == 3
    stage.daemon.kill()
    _remove_files(stage, lost["call_id"])
    (talk.folder / "go").touch()
    wait_until(lambda: not processes_of(kept) and not processes_of(lost))
    stage.daemon.start()
    talk.reconnect(0)
    for task in (kept, lost):
        over = ended(talk, task)
        assert over["status"] in {"failed", "completed"}
        part = stage.daemon.call("task/output", task_id=task["id"])
        assert (part["output"], part["next_offset"]) == ("", 0)


def test_a_task_that_runs_is_found_again_though_its_file_is_gone(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; {until(Path('go'))}; exit 6")
    printed(stage.daemon, task, "begun")
    stage.daemon.kill()
    _remove_files(stage, task["call_id"])
    stage.daemon.start()
    talk.reconnect()
    assert stage.daemon.call("task/wait", task_id=task["id"], timeout_ms=0)["status"] == "running"
    (talk.folder / "go").touch()
    assert ended(talk, task)["exit_code"] == 6


def _remove_files(stage: Stage, call_id: str) -> None:
    for path in (stage.daemon.home / "tasks").iterdir():
        if call_id in path.name:
            path.unlink()


# What the model is told.


def test_the_end_is_told_once_though_the_daemon_dies_before_the_next_request(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, until(Path("go")))
    (talk.folder / "go").touch()
    ended(talk, task)
    assert notes_about(talk, task) == []
    stage.restart()
    talk.turn("And now?")
    stage.restart()
    talk.turn("Again?")
    talk.turn("And again?")
    assert len(notes_about(talk, task)) == 1


def test_a_task_that_ends_in_the_middle_of_a_turn_is_told_with_its_next_request(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")))
    stage.api.script(talk.name, otherwise=message(calls("Gate", {"path": talk.gate("g")})))
    turn_id = talk.start()
    talk.at_gate("g")
    (talk.folder / "go").touch()
    ended(talk, task)
    stage.api.script(talk.name, otherwise=message(says("I see.")))
    talk.open_gate("g")
    assert talk.ended(turn_id)["result_text"] == "I see."
    (told,) = notes_about(talk, task)
    assert told["turn_id"] == turn_id
    assert f"The background task {task['id']} is done" in str(talk.requests[-1].body["messages"][-1])


def test_a_task_that_ends_after_the_last_request_of_a_turn_wakes_the_session(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")), wake_on_task_end=True)
    gate = Gate()
    stage.api.script(talk.name, otherwise=message(says("A word ", hold(gate), "more.")))
    turn_id = talk.start()
    talk.wait("message.delta")
    (talk.folder / "go").touch()
    ended(talk, task)
    stage.api.script(talk.name, otherwise=message(says("I was woken.")))
    gate.open()
    assert talk.ended(turn_id)["result_text"] == "A word more."
    assert talk.ended()["result_text"] == "I was woken."
    assert len(notes_about(talk, task)) == 1


def test_what_was_told_in_a_prompt_that_a_hook_blocks_is_told_with_the_next(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = hooked(stage, "UserPromptSubmit", "if [ -e block ]; then echo no >&2; exit 2; fi")
    talk, (first, second) = talk_behind(stage, until(Path("one")), until(Path("two")), folder=folder, trust=True)
    (folder / "block").touch()
    (folder / "one").touch()
    ended(talk, first)
    assert talk.turn()["reason"] == "stopped_by_hook"
    assert notes_about(talk, first) == []
    (folder / "two").touch()
    ended(talk, second)
    assert talk.turn()["reason"] == "stopped_by_hook"
    stage.restart()
    (folder / "block").unlink()
    talk.turn()
    talk.turn()
    assert (len(notes_about(talk, first)), len(notes_about(talk, second))) == (1, 1)


def test_a_session_that_wants_to_be_woken_is_woken_after_a_restart(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, until(Path("go")), wake_on_task_end=True)
    stage.daemon.kill()
    (talk.folder / "go").touch()
    wait_until(lambda: not processes_of(task))
    stage.api.script(talk.name, otherwise=message(says("I was woken.")))
    stage.daemon.start()
    talk.reconnect(0)
    assert talk.ended(None)["result_text"]
    assert _last_words(talk) == "I was woken."
    assert len(notes_about(talk, task)) == 1


def _last_words(talk: Talk) -> str:
    wait_until(lambda: len(talk.daemon.call("turn/list", session_id=talk.id)["turns"]) == 2)
    turn = talk.daemon.call("turn/list", session_id=talk.id)["turns"][-1]
    return str(talk.daemon.call("turn/wait", turn_id=turn["id"])["result_text"])


# A disk that takes nothing.


def test_a_task_that_ends_while_the_disk_is_full_is_over_when_there_is_room(api: ScriptedApi, tmp_path: Path) -> None:
    with limited_files(tmp_path) as room:
        room.daemon.environment = environment(api, tmp_path / "plug_in")
        with room.daemon as daemon:
            stage = Stage(daemon, api, tmp_path)
            talk, (task,) = talk_behind(stage, until(Path("go")))
            _fill(daemon, talk.id)
            (talk.folder / "go").touch()
            wait_until(lambda: not processes_of(task))
            assert daemon.call("task/wait", task_id=task["id"], timeout_ms=200)["status"] == "running"
            assert daemon.http("GET", "/healthz").status == 200
            room.free()
            over = daemon.call("task/wait", task_id=task["id"])
            assert (over["status"], over["exit_code"]) == ("completed", 0)
            talk.turn("And now?")
            assert len(notes_about(talk, task)) == 1
            talk.stream.close()


def _fill(daemon: Daemon, session_id: str) -> None:
    """Write until the daemon can no more."""
    with pytest.raises(Refused) as refused:
        _write_for_ever(daemon, session_id)
    assert refused.value.word in {"storage_error", "read_only"}


def _write_for_ever(daemon: Daemon, session_id: str) -> None:
    with Caller(daemon) as caller:
        for number in itertools.count():
            caller.call("session/update", session_id=session_id, metadata={"n": number, "bulk": "x" * 20_000})


def test_a_second_signal_leaves_tasks_alone_too(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; {until(Path('go'))}")
    printed(stage.daemon, task, "begun")
    stage.daemon.signal(signal.SIGTERM)
    stage.daemon.signal(signal.SIGTERM)
    stage.daemon.wait()
    assert processes_of(task)
    stage.daemon.start()
    talk.reconnect(0)
    (talk.folder / "go").touch()
    assert ended(talk, task)["status"] == "completed"


def test_the_last_words_of_a_task_that_was_taken_over_are_all_there(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo before; {until(Path('go'))}; seq 1 200000; echo last >/dev/stdout")
    printed(stage.daemon, task, "before")
    stage.daemon.kill()
    stage.daemon.start()
    talk.reconnect()
    (talk.folder / "go").touch()
    assert ended(talk, task)["status"] == "completed"
    place, text = 0, ""
    while (part := stage.daemon.call("task/output", task_id=task["id"], offset=place))["output"]:
        place, text = part["next_offset"], text + part["output"]
    assert text.split() == ["before", *map(str, range(1, 200_001)), "last"]


def test_who_has_read_a_part_gets_the_rest_of_a_task_that_opens_its_output_anew(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, f"echo before; {until(Path('go'))}; echo two >/dev/stdout; echo end")
    printed(stage.daemon, task, "before\n")
    (talk.folder / "go").touch()
    ended(talk, task)
    assert stage.daemon.call("task/output", task_id=task["id"], offset=len("before\n"))["output"] == "two\nend\n"
