"""We execute what was approved."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.driver import Stage, Talk
from tests.support.model_replies import bash, write
from tests.support.projects import OURS, decisions, project, rules, talk_of


def script(talk: Talk, words: str) -> Path:
    path = talk.folder / "build.sh"
    path.write_text(f"#!/bin/sh\n{words}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("command", ["./build.sh", "bash build.sh", "sh ./build.sh now", "env A=b ./build.sh"])
def test_a_script_that_changed_between_ask_and_answer_is_not_run(stage: Stage, command: str) -> None:
    talk = talk_of(stage, bash(command))
    script(talk, "touch approved")
    turn_id = talk.start()
    ask = talk.ask()
    script(talk, "touch planted")
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert not (talk.folder / "planted").exists()
    assert not (talk.folder / "approved").exists()
    assert talk.results()[0]["is_error"]


def test_a_script_that_did_not_change_runs(stage: Stage) -> None:
    talk = talk_of(stage, bash("./build.sh"))
    script(talk, "touch approved")
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow")
    talk.ended(turn_id)
    assert (talk.folder / "approved").exists()


def test_a_script_that_changed_while_no_daemon_ran_is_not_run(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = talk_of(stage, bash("./build.sh"), bash("./build.sh"))
    path = script(talk, "touch approved")
    talk.start()
    ask = talk.ask()
    stage.daemon.kill()
    path.write_text("#!/bin/sh\ntouch planted\n")
    stage.daemon.start()
    talk.reconnect()
    talk.answer(ask, "allow")
    again = talk.ask()
    talk.answer(again, "deny")
    talk.ended()
    assert not (talk.folder / "planted").exists()
    assert "another one than when it was allowed" in talk.result_texts()[0]


def test_a_script_that_no_crash_changed_runs_afterwards(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = talk_of(stage, bash("./build.sh"))
    script(talk, "touch approved")
    talk.start()
    ask = talk.ask()
    stage.restart()
    talk.answer(ask, "allow")
    talk.ended()
    assert (talk.folder / "approved").exists()


def test_a_changed_input_is_another_script_which_is_looked_at_anew(stage: Stage) -> None:
    talk = talk_of(stage, bash("./build.sh"))
    script(talk, "touch approved")
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow", input={"command": "touch instead"})
    talk.ended(turn_id)
    assert (talk.folder / "instead").exists()
    assert not (talk.folder / "approved").exists()


def test_allow_with_another_path_is_checked_by_the_tool_again(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Edit(kept)"])})
    talk = talk_of(stage, write(folder / "a"), folder=folder)
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow", input={"file_path": str(folder / "kept"), "content": "x"})
    talk.ended(turn_id)
    assert decisions(talk) == [("deny", "rule")]
    assert not (folder / "kept").exists()


def test_allow_with_a_path_of_the_daemons_own_is_refused_by_the_tool(stage: Stage) -> None:
    talk = talk_of(stage, write("/nowhere/a"), folder=project(stage))
    turn_id = talk.start()
    planted = stage.daemon.home / "planted"
    talk.answer(talk.ask(), "allow", input={"file_path": str(planted), "content": "x"})
    talk.ended(turn_id)
    assert not planted.exists()
    assert talk.results()[0]["is_error"]


def test_a_link_that_is_planted_between_ask_and_answer_leads_nowhere(stage: Stage) -> None:
    folder = project(stage)
    (folder / "there").mkdir()
    talk = talk_of(stage, write(folder / "here" / "new"), folder=folder)
    (folder / "here").mkdir()
    turn_id = talk.start()
    ask = talk.ask()
    (folder / "here").rmdir()
    (folder / "here").symlink_to("there")
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert not (folder / "there" / "new").exists()
