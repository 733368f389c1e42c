"""Commands that go on behind their calls: started, watched, told of once, and found again after a restart."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message, says


def in_background(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command, "run_in_background": True}


def test_a_command_goes_on_behind_its_call(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    go = talk.folder / "go"
    command = f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo done"
    stage.api.script(talk.name, message(calls(*in_background(command))), message(says("It runs.")))
    turn = talk.turn()
    assert turn["reason"] == "completed"
    started = talk.wait("task.started")["data"]["task"]
    assert (started["type"], started["status"], started["command"]) == ("local_bash", "running", command)
    assert started["id"][0] == "b"
    assert len(started["id"]) == 9
    assert f"Running in background as {started['id']}" in talk.result_texts()[0]
    assert "begun" in talk.wait("task.output")["data"]["text"]
    go.write_text("")
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (started["id"], "completed", 0)


def test_the_model_is_told_once_of_the_end(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(
        talk.name,
        message(calls(*in_background("exit 3"))),
        message(says("It runs.")),
        message(says("I see.")),
        message(says("Yes.")),
    )
    talk.turn()
    task = talk.wait("task.ended")["data"]["task"]
    assert (task["status"], task["exit_code"]) == ("failed", 3)
    talk.turn("And now?")
    talk.turn("Again?")
    told = [text for text in _words_of_ours(talk) if task["id"] in text and "has failed (exit code 3)" in text]
    assert len(told) == 1


def _words_of_ours(talk: Talk) -> list[str]:
    texts = (
        block["text"]
        for one in talk.messages()
        if one["role"] == "user"
        for block in one["content"]
        if block["type"] == "text"
    )
    return [text for text in texts if text.startswith("<ostler-note>")]


def test_an_idle_session_is_woken_where_it_says_so(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]}, wake_on_task_end=True)
    go = talk.folder / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done"
    stage.api.script(
        talk.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I was woken."))
    )
    talk.turn()
    go.write_text("")
    woken = talk.ended()
    assert woken["result_text"] == "I was woken."


def test_a_deleted_session_takes_its_tasks_along(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(
        talk.name, message(calls(*in_background("echo $BASHPID >pid; sleep 1000"))), message(says("It runs."))
    )
    talk.turn()
    wait_until(lambda: (talk.folder / "pid").exists() and (talk.folder / "pid").read_text().strip())
    pid = int((talk.folder / "pid").read_text())
    stage.daemon.call("session/delete", session_id=talk.id)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    # What the calls of earlier tests printed is removed a moment later.
    wait_until(lambda: list((stage.daemon.home / "tasks").glob("*")) == [])


def test_a_task_outlives_the_daemon_and_is_found_again(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    go = talk.folder / "go"
    command = f"echo before; until [ -e {go} ]; do sleep 0.05; done; echo after; exit 7"
    stage.api.script(
        talk.name, message(calls(*in_background(command))), message(says("It runs.")), message(says("I see."))
    )
    talk.turn()
    task = talk.wait("task.started")["data"]["task"]
    stage.restart()
    go.write_text("")
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["id"], ended["status"], ended["exit_code"]) == (task["id"], "failed", 7)
    talk.turn("And now?")
    assert any(task["id"] in text for text in _words_of_ours(talk))


def test_what_ended_while_no_daemon_ran_left_its_exit_code(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    go, gone = talk.folder / "go", talk.folder / "gone"
    command = f"trap 'echo >{gone}' EXIT; until [ -e {go} ]; do sleep 0.05; done"
    stage.api.script(talk.name, message(calls(*in_background(command))), message(says("It runs.")))
    talk.turn()
    stage.daemon.kill()
    go.write_text("")
    wait_until(gone.exists)
    wait_until(lambda: any(path.read_text().endswith("0\n") for path in (stage.daemon.home / "tasks").glob("*.end")))
    stage.daemon.start()
    talk.reconnect(0)
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)


def test_a_stray_file_of_a_crash_is_removed(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    stage.daemon.kill()
    stray = stage.daemon.home / "tasks" / "call-m_1#0-0123.out"
    stray.write_text("left")
    stage.daemon.start()
    wait_until(lambda: not stray.exists())
    assert os.path.isdir(stray.parent)
