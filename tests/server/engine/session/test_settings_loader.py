"""Settings files are read again when they change, and what is wrong with them is said once."""

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash
from tests.support.projects import (
    CLAUDES,
    OUR_LOCAL,
    OURS,
    decisions,
    explained_command,
    notices,
    project,
    rules,
    runs,
    write,
)


def test_a_rule_that_is_written_between_two_turns_counts_in_the_second(stage: Stage) -> None:
    talk = stage.talk(message(bash("ls")), DONE, message(bash("ls")), DONE)
    talk.turn()
    write(talk.folder, OURS, rules(deny=["Bash(ls:*)"]))
    talk.turn()
    assert decisions(talk) == [("allow", "read_only"), ("deny", "rule")]


def test_a_rule_that_is_taken_away_does_not_count_any_more(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Bash(ls:*)"])})
    talk = stage.talk(message(bash("ls")), DONE, message(bash("ls")), DONE, folder=folder)
    talk.turn()
    (folder / OURS).unlink()
    talk.turn()
    assert decisions(talk) == [("deny", "rule"), ("allow", "read_only")]


def test_a_rule_that_is_written_in_the_middle_of_a_turn_counts_in_it(stage: Stage) -> None:
    talk = stage.talk(folder=project(stage))
    gate = calls("Gate", {"path": talk.gate("gate")})
    stage.api.script(talk.name, message(gate), message(bash("ls")), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("gate")
    write(talk.folder, OURS, rules(deny=["Bash(ls:*)"]))
    _counts(talk, "ls")
    talk.open_gate("gate")
    talk.ended(turn_id)
    assert decisions(talk)[-1] == ("deny", "rule")


def test_the_daemon_looks_by_itself_while_a_turn_runs(stage: Stage) -> None:
    talk = stage.talk(folder=project(stage))
    gate = calls("Gate", {"path": talk.gate("gate")})
    stage.api.script(talk.name, message(gate), message(bash("ls")), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("gate")
    write(talk.folder, OURS, '{"permissions": {"deny": ["Bash(ls:*)"], "alow": []}}')
    talk.wait("notice")  # that it was read, nobody else tells
    talk.open_gate("gate")
    talk.ended(turn_id)
    assert decisions(talk)[-1] == ("deny", "rule")


def test_a_deny_rule_that_is_written_while_an_ask_is_open_beats_its_answer(stage: Stage) -> None:
    talk = stage.talk(message(bash("touch it")), DONE, folder=project(stage))
    turn_id = talk.start()
    ask = talk.ask()
    write(talk.folder, OURS, rules(deny=["Bash(touch:*)"]))
    _counts(talk, "touch it")
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert decisions(talk) == [("deny", "rule")]
    assert not (talk.folder / "it").exists()


def _counts(talk: Talk, command: str) -> None:
    wait_until(lambda: explained_command(talk, command)["behavior"] == "deny")


@pytest.mark.parametrize("name", [OURS, CLAUDES, OUR_LOCAL])
def test_a_broken_file_contributes_nothing_and_one_notice_says_where(stage: Stage, name: str) -> None:
    folder = project(stage, {name: '{\n  "permissions": {"deny": ["Bash(ls:*)"],,}\n}'})
    talk = stage.talk(message(bash("ls")), DONE, message(bash("ls")), DONE, folder=folder)
    talk.turn()
    talk.turn()
    assert decisions(talk) == [("allow", "read_only")] * 2
    told = [text for text in notices(talk) if str(folder) in text]
    assert len(told) == 1
    assert told[0].startswith(f"{folder / name}:2:")
    problem = stage.daemon.call("rule/list", session_id=talk.id)["problems"][0]
    assert (problem["file"], problem["line"]) == (str(folder / name), 2)


def test_a_rule_that_cannot_be_read_is_said_with_its_place_and_forbids_no_less(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Bash(ls"], allow=["Bahs(ls)"])})
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert decisions(talk)[0][0] == "deny"
    problems = stage.daemon.call("rule/list", session_id=talk.id)["problems"]
    assert {problem["line"] for problem in problems} == {4, 7}
    assert any("Bash" in problem["message"] for problem in problems)


def test_a_file_that_is_mended_counts_again(stage: Stage) -> None:
    folder = project(stage, {OURS: "{"})
    talk = stage.talk(message(bash("ls")), DONE, folder=folder)
    assert explained_command(talk, "ls")["behavior"] == "allow"
    write(folder, OURS, rules(deny=["Bash(ls)"]))
    assert explained_command(talk, "ls")["behavior"] == "deny"
