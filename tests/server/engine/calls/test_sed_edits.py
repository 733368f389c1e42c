"""A simple `sed -i` on its way through the engine: shown with its diff, bound by the rules of Edit, told as an edit."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says

SED = "sed -i 's/two/2/' f.txt"


def talk_about(stage: Stage, command: str = SED, **session: Any) -> Talk:
    talk = stage.talk(**session)
    talk.file("f.txt", "one\ntwo\nthree\n")
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), message(says("Done.")))
    return talk


def call(talk: Talk) -> Json:
    completed: Json = talk.all("tool.completed")[-1]["call"]
    return completed


def content(talk: Talk) -> str:
    return (talk.folder / "f.txt").read_text()


def test_a_person_sees_the_diff_and_the_file_is_written_by_us(stage: Stage) -> None:
    talk = talk_about(stage)
    turn = talk.start()
    ask = talk.ask()
    assert "-two\n+2\n" in ask["diff"]
    assert ask["message"] == f"Change {talk.folder}/f.txt?"
    assert content(talk) == "one\ntwo\nthree\n"
    talk.answer(ask, "allow")
    talk.ended(turn)
    assert content(talk) == "one\n2\nthree\n"
    assert talk.result_texts()[0].startswith(f"File updated: {talk.folder}/f.txt")
    [changed] = talk.all("file.changed")
    assert changed["path"] == f"{talk.folder}/f.txt"
    assert call(talk)["output"]["edits"][0]["kind"] == "update"
    [shown] = talk.daemon.call("session/diff", session_id=talk.id)["files"]
    assert shown["path"] == f"{talk.folder}/f.txt"


def test_a_no_leaves_the_file_alone(stage: Stage) -> None:
    talk = talk_about(stage)
    turn = talk.start()
    talk.answer(talk.ask(), "deny")
    talk.ended(turn)
    assert content(talk) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("rule", ["Edit", "Edit(./*.txt)", "Edit(f.txt)"])
def test_a_rule_that_allows_the_edit_allows_it(stage: Stage, rule: str) -> None:
    talk = talk_about(stage, rules={"allow": [rule]})
    talk.turn()
    assert content(talk) == "one\n2\nthree\n"
    assert (call(talk)["decision"]["by"], call(talk)["decision"]["rule"]) == ("rule", rule)


def test_a_rule_about_other_files_does_not(stage: Stage) -> None:
    talk = talk_about(stage, rules={"allow": ["Edit(./*.py)"]}, on_ask="deny")
    talk.turn()
    assert content(talk) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("rule", ["Edit", "Edit(f.txt)", "Edit(./*)", "Read(f.txt)", "Bash(sed:*)"])
def test_a_rule_that_denies_the_edit_denies_it_in_every_mode(stage: Stage, rule: str) -> None:
    talk = talk_about(stage, rules={"allow": ["Bash"], "deny": [rule]}, mode="acceptEdits")
    talk.turn()
    assert content(talk) == "one\ntwo\nthree\n"
    assert call(talk)["decision"]["rule"] == rule


def test_accept_edits_lets_it_pass(stage: Stage) -> None:
    talk = talk_about(stage, mode="acceptEdits")
    talk.turn()
    assert content(talk) == "one\n2\nthree\n"
    assert len(talk.all("file.changed")) == 1


def test_a_rule_for_edits_allows_no_other_command_of_sed(stage: Stage) -> None:
    talk = talk_about(stage, "sed -i 's/two/2/w out' f.txt", rules={"allow": ["Edit"]}, on_ask="deny")
    talk.turn()
    assert content(talk) == "one\ntwo\nthree\n"
    assert not (talk.folder / "out").exists()


def test_plan_mode_denies_it(stage: Stage) -> None:
    talk = talk_about(stage, rules={"allow": ["Edit"]}, mode="plan")
    talk.turn()
    assert content(talk) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("changed", [False, True])
def test_a_yes_after_a_restart_is_for_the_file_that_was_shown(own_stage: Callable[..., Stage], changed: bool) -> None:
    stage = own_stage()
    talk = talk_about(stage, on_restart="resume")
    talk.start()
    ask = talk.ask()
    stage.daemon.kill()
    if changed:
        talk.file("f.txt", "two two\n")
    stage.daemon.start()
    talk.reconnect()
    talk.answer(ask, "allow")
    talk.ended()
    assert content(talk) == ("two two\n" if changed else "one\n2\nthree\n")
    assert ("another one than when it was allowed" in talk.result_texts()[0]) is changed
