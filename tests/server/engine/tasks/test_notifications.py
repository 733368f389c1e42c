"""The end of a task is told once: who has seen it in a result is not told of it again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.background_commands import ended, notes_about, talk_behind, until
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def looks(stage: Stage, talk: Talk, task: Json, tool: str = "TaskOutput", **given: Any) -> None:
    """A turn in which the model asks about the task, and one after it."""
    stage.api.script(talk.name, DONE, DONE, message(calls(tool, {"task_id": task["id"], **given})), otherwise=DONE)
    talk.turn("Look.")
    talk.turn("And now?")


def test_who_waited_for_the_end_with_taskoutput_is_not_told_of_it(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")))
    stage.api.script(talk.name, DONE, DONE, message(calls("TaskOutput", {"task_id": task["id"]})), otherwise=DONE)
    turn_id = talk.start("Look.")
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    (talk.folder / "go").touch()
    talk.ended(turn_id)
    talk.turn("And now?")
    assert f"{task['id']} completed" in talk.result_texts()[-1]
    assert notes_about(talk, task) == []


def test_who_stopped_it_is_not_told_of_it(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("never")))
    looks(stage, talk, task, "TaskStop")
    assert talk.result_texts()[-1].startswith(f"Stopped {task['id']}")
    assert notes_about(talk, task) == []


def test_who_looked_before_the_end_is_told_of_it(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")))
    looks(stage, talk, task, block=False)
    assert notes_about(talk, task) == []
    (talk.folder / "go").touch()
    ended(talk, task)
    talk.turn("And now?")
    talk.turn("Again?")
    assert len(notes_about(talk, task)) == 1


def test_others_that_ended_meanwhile_are_told_of(stage: Stage) -> None:
    talk, (one, two) = talk_behind(stage, until(Path("go")), until(Path("go")))
    stage.api.script(talk.name, DONE, DONE, message(calls("TaskOutput", {"task_id": one["id"]})), otherwise=DONE)
    turn_id = talk.start("Look.")
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "TaskOutput")
    (talk.folder / "go").touch()
    talk.ended(turn_id)
    ended(talk, two)
    talk.turn("And now?")
    assert (len(notes_about(talk, one)), len(notes_about(talk, two))) == (0, 1)


def test_it_is_not_told_after_a_restart_either(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, until(Path("never")))
    looks(stage, talk, task, "TaskStop")
    stage.restart()
    talk.turn("And now?")
    assert notes_about(talk, task) == []


def test_an_end_wakes_nobody_who_does_not_want_it(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, until(Path("go")))
    requests = len(talk.requests)
    (talk.folder / "go").touch()
    ended(talk, task)
    # What comes after it on the same stream is the proof: nothing began in between.
    stage.daemon.call("session/update", session_id=talk.id, metadata={"later": 1})
    talk.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert talk.types("turn.started") == ["turn.started"]
    assert (len(talk.requests), notes_about(talk, task)) == (requests, [])


def test_an_end_is_told_to_clients_once_whatever_daemons_come_after_it(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, "exit 0")
    ended(talk, task)
    stage.restart()
    stage.restart()
    stage.daemon.call("session/update", session_id=talk.id, metadata={"later": 1})
    talk.seen.clear()
    talk._returned.clear()
    talk.reconnect(0)
    talk.wait("session.updated", lambda data: data["session"]["metadata"] == {"later": 1})
    assert talk.types("task.ended") == ["task.ended"]
