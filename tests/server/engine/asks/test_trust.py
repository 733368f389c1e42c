"""Trust: nothing that a folder brings acts before a person trusted it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash import Scene
from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import declared
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE, bash
from tests.support.projects import (
    CLAUDES,
    CLAUDES_LOCAL,
    OUR_LOCAL,
    OURS,
    decisions,
    explained_command,
    notices,
    project,
    rules,
    runs,
    talk_of,
    write,
)

ALLOWING = rules(allow=["Bash(touch it)"])
HOOKING = declared("SessionStart", "touch acted")
SUBMITTING = declared("UserPromptSubmit", "touch acted")


def asked(stage: Stage, settings: Json, name: str = OURS) -> tuple[Talk, str, Json]:
    """A talk in a folder that brings this, its turn, and the question."""
    talk = talk_of(stage, bash("touch it"), folder=project(stage, {name: settings}))
    turn_id = talk.start()
    return talk, turn_id, talk.ask()


@pytest.mark.parametrize("name", [OURS, OUR_LOCAL, CLAUDES, CLAUDES_LOCAL])
@pytest.mark.parametrize("settings", [ALLOWING, HOOKING, SUBMITTING], ids=["rule", "start", "submit"])
def test_what_would_act_asks_at_the_first_turn_and_does_nothing_before(stage: Stage, settings: Json, name: str) -> None:
    talk, turn_id, ask = asked(stage, settings, name)
    assert (ask["kind"], ask["choices"], ask["folder"]) == ("trust", ["trust", "restrict"], str(talk.folder))
    assert len(ask["what"]) == 1
    assert "touch" in ask["what"][0]["text"]
    assert talk.state()["status"] == "waiting"
    assert not (talk.folder / "acted").exists()
    assert talk.requests == []
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert not (talk.folder / "acted").exists()
    assert not (talk.folder / "it").exists()
    assert talk.requests == []


def test_trust_makes_it_act_in_this_turn(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, {**ALLOWING, **SUBMITTING})
    talk.answer(ask, "trust")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert decisions(talk) == [("allow", "rule")]
    assert (talk.folder / "acted").exists()


def test_restrict_goes_on_without_it_and_is_not_asked_again(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, {**ALLOWING, **SUBMITTING})
    talk.answer(ask, "restrict")
    permission = talk.ask()
    assert permission["kind"] == "permission"
    talk.answer(permission, "allow")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert not (talk.folder / "acted").exists()
    talk.turn()
    assert talk.types("ask.opened") == ["ask.opened"] * 2


def test_an_answer_to_a_question_of_trust_is_one_of_its_choices(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, ALLOWING)
    for choice in ("allow", "allow_always", "deny"):
        assert talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": choice})["code"] == -32602
    assert talk.state()["asks"] == [ask]
    talk.answer(ask, "restrict")
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)


def test_a_file_that_changed_is_asked_about_again(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True)
    talk.turn()
    assert talk.types("ask.opened") == []
    write(folder, OURS, {**ALLOWING, **SUBMITTING})
    turn_id = talk.start()
    ask = talk.ask()
    assert (ask["kind"], len(ask["what"])) == ("trust", 2)
    talk.answer(ask, "restrict")
    talk.ended(turn_id)
    assert not (folder / "acted").exists()


def test_a_change_that_acts_no_differently_is_not_asked_about(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    talk = talk_of(stage, folder=folder, trust=True)
    talk.turn()
    write(folder, OURS, {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(touch it)"]}})
    talk.turn()
    assert talk.types("ask.opened") == []


def test_trust_at_creation_asks_nothing(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    talk = runs(stage, bash("touch it"), folder=folder, trust=True, on_ask="ask")
    assert talk.session["trusted"] is True
    assert (decisions(talk), talk.types("ask.opened")) == ([("allow", "rule")], [])


def test_trust_holds_for_the_next_session_of_the_folder_and_for_no_other_folder(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    runs(stage, folder=folder, trust=True)
    assert decisions(runs(stage, bash("touch it"), folder=folder)) == [("allow", "rule")]
    other = project(stage, {OURS: ALLOWING})
    assert decisions(runs(stage, bash("touch it"), folder=other)) == [("deny", "on_ask")]


@pytest.mark.parametrize("session", [{"on_ask": "deny"}, {"mode": "dontAsk"}], ids=str)
def test_where_nobody_can_be_asked_it_stays_without_effect_and_a_notice_says_so(stage: Stage, session: Any) -> None:
    folder = project(stage, {OURS: {**ALLOWING, **SUBMITTING}})
    talk = talk_of(stage, bash("touch it"), folder=folder, **session)
    talk.turn()
    assert decisions(talk)[0][0] == "deny"
    assert not (folder / "acted").exists()
    assert any("nobody can be asked to trust" in text for text in notices(talk))


def test_deny_and_ask_rules_of_a_folder_that_nobody_trusts_count(stage: Stage) -> None:
    settings = rules(allow=["Bash(touch it)"], deny=["Bash(make)"], ask=["Bash(ls)"])
    talk = stage.talk(folder=project(stage, {OURS: settings}))
    found = [explained_command(talk, command) for command in ("touch it", "make", "ls")]
    assert [(each["behavior"], each["by"]) for each in found] == [
        ("ask", "default"),
        ("deny", "rule"),
        ("ask", "rule"),
    ]


def test_a_folder_that_only_forbids_asks_for_no_trust(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Bash(make)"], ask=["Bash(ls)"])})
    talk = talk_of(stage, folder=folder)
    talk.turn()
    assert talk.types("ask.opened") == []


def test_a_projects_mode_environment_and_base_url_never_count(bypassing: Stage) -> None:
    settings = {
        "permissions": {"defaultMode": "bypassPermissions", "additionalDirectories": ["/"]},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "PLANTED": "yes"},
        "apiKeyHelper": "touch acted",
    }
    folder = project(bypassing, {CLAUDES: settings})
    talk = runs(bypassing, bash("echo x$PLANTED"), folder=folder, trust=True, rules={"allow": ["Bash(echo:*)", "Bash"]})
    assert talk.session["mode"] == "default"
    assert "xyes" not in talk.result_texts()[0]
    assert not (folder / "acted").exists()
    assert explained_command(talk, "cat /etc/hostname")["by"] == "rule"


def test_two_sessions_of_a_folder_ask_each_and_one_answer_is_enough_for_the_next_turn(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    first, second = (talk_of(stage, bash("touch it"), folder=folder) for _ in range(2))
    turns = [first.start(), second.start()]
    asks = [first.ask(), second.ask()]
    assert asks[0]["id"] != asks[1]["id"]
    first.answer(asks[0], "trust")
    first.ended(turns[0])
    second.answer(asks[1], "trust")
    second.ended(turns[1])
    assert decisions(first) == decisions(second) == [("allow", "rule")]


# What a person remembers in a folder that nobody trusts.


def restricted(stage: Stage, settings: Json) -> tuple[Talk, str, Json]:
    """A talk in a folder that brings this, which the person did not trust, and the question about a call."""
    talk, turn_id, ask = asked(stage, settings)
    talk.answer(ask, "restrict")
    return talk, turn_id, talk.ask()


@pytest.mark.parametrize("scope", ["local", "project"])
def test_an_answer_is_not_remembered_where_it_would_not_count(stage: Stage, scope: str) -> None:
    talk, turn_id, ask = restricted(stage, SUBMITTING)
    assert [each["scope"] for each in ask["suggestions"]] == ["session"]
    answer = {"choice": "allow_always", "rule": "Bash(touch it)", "scope": scope}
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer=answer)
    assert (error["data"]["code"], error["data"]["folder"]) == ("conflict", str(talk.folder))
    assert "not trusted" in error["message"]
    assert talk.state()["asks"] == [ask]
    assert not (talk.folder / OUR_LOCAL).exists()
    talk.answer(ask, "allow_always", scope="session")
    talk.ended(turn_id)
    talk.turn()
    assert talk.types("ask.opened") == ["ask.opened"] * 2  # nothing of the person's own makes the folder ask again
    assert not (talk.folder / "acted").exists()


def test_what_forbids_is_remembered_in_a_folder_that_nobody_trusts(stage: Stage) -> None:
    talk, turn_id, ask = restricted(stage, SUBMITTING)
    talk.answer(ask, "deny_always", rule="Bash(touch it)", scope="local", message="never")
    talk.ended(turn_id)
    assert explained_command(talk, "touch it")["behavior"] == "deny"
    assert talk.state()["trusted"] is False


def test_a_rule_is_not_added_where_it_would_not_count(stage: Stage) -> None:
    talk = stage.talk(folder=project(stage, {OURS: SUBMITTING}))
    rule = {"session_id": talk.id, "behavior": "allow", "rule": "Bash(touch it)", "scope": "local"}
    assert stage.daemon.error("rule/add", **rule)["data"]["code"] == "conflict"
    stage.daemon.call("trust/grant", folder=str(talk.folder))
    stage.daemon.call("rule/add", **rule)
    assert explained_command(talk, "touch it")["behavior"] == "allow"


def test_a_remembered_answer_trusts_nothing_that_came_meanwhile(stage: Stage) -> None:
    talk = talk_of(stage, bash("touch it"), folder=project(stage))
    turn_id = talk.start()
    ask = talk.ask()
    assert [each["scope"] for each in ask["suggestions"]] == ["session", "local"]
    write(talk.folder, OURS, SUBMITTING)
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "allow_always", "scope": "local"})
    assert error["data"]["code"] == "conflict"
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert trusts(stage, talk.folder) == []
    second = talk.start()
    assert talk.ask()["kind"] == "trust"
    stage.daemon.call("turn/interrupt", turn_id=second)
    talk.ended(second)
    assert not (talk.folder / "acted").exists()


# A crash.


def test_a_question_of_trust_survives_a_crash_and_goes_on_when_it_is_answered(scene: Scene) -> None:
    write(scene.folder, OURS, {**ALLOWING, **SUBMITTING})
    scene.script(message(bash("touch it")))
    scene.create()
    turn_id = scene.begin()
    assert scene.rests(turn_id)["status"] == "waiting"
    (before,) = scene.asks()
    scene.crash()
    assert scene.rests(turn_id)["status"] == "waiting"
    assert scene.asks() == [before]
    assert not (scene.folder / "acted").exists()
    scene.answer(before, "trust")
    assert scene.ends(turn_id)["reason"] == "completed"
    assert (scene.folder / "it").exists()
    assert scene.asks(None) == [scene.daemon.call("ask/get", ask_id=before["id"])]
    scene.expect_whole()


def test_a_hook_hears_of_a_prompt_that_waited_for_trust_through_a_crash(scene: Scene) -> None:
    write(scene.folder, OURS, declared("UserPromptSubmit", "echo no >&2; exit 2"))
    scene.script()
    scene.create()
    turn_id = scene.begin()
    scene.rests(turn_id)
    (ask,) = scene.asks()
    scene.crash()
    scene.answer(ask, "trust")
    assert scene.ends(turn_id)["reason"] == "stopped_by_hook"
    assert scene.api.of("go") == []


def test_restrict_after_a_crash_goes_on_without_it(scene: Scene) -> None:
    write(scene.folder, OURS, {**ALLOWING, **SUBMITTING})
    scene.script(message(bash("touch it")))
    scene.create()
    turn_id = scene.begin()
    scene.rests(turn_id)
    (ask,) = scene.asks()
    scene.crash()
    scene.answer(ask, "restrict")
    scene.wait_for("ask.opened", lambda data: data["ask"]["kind"] == "permission")
    (permission,) = scene.asks()
    scene.answer(permission, "deny", message="no")
    assert scene.ends(turn_id)["reason"] == "completed"
    assert not (scene.folder / "acted").exists()


# The methods.


def trusts(stage: Stage, folder: Path) -> list[Json]:
    return [each for each in stage.daemon.call("trust/list", limit=500)["trusts"] if each["folder"] == str(folder)]


def test_trust_can_be_listed_granted_and_revoked(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    assert trusts(stage, folder) == []
    granted = stage.daemon.call("trust/grant", folder=str(folder))
    assert (granted["current"], granted["what"]) == (True, ["allows Bash(touch it)"])
    assert trusts(stage, folder) == [granted]
    talk = stage.talk(folder=folder)
    assert explained_command(talk, "touch it")["behavior"] == "allow"
    stage.daemon.call("trust/revoke", folder=str(folder))
    assert trusts(stage, folder) == []
    assert explained_command(talk, "touch it")["behavior"] == "ask"
    assert stage.daemon.error("trust/revoke", folder=str(folder))["code"] == -32602


def test_the_list_says_where_trust_is_out_of_date(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    stage.daemon.call("trust/grant", folder=str(folder))
    write(folder, OURS, HOOKING)
    (found,) = trusts(stage, folder)
    assert (found["current"], found["what"]) == (False, ["hook SessionStart: touch acted"])


@pytest.mark.parametrize("folder", ["relative", "/nowhere/at/all"])
def test_only_a_folder_can_be_trusted(stage: Stage, folder: str) -> None:
    assert stage.daemon.error("trust/grant", folder=folder)["data"]["code"] == "bad_folder"


def test_a_link_to_a_folder_is_trusted_as_what_it_leads_to(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    folder = project(stage, {OURS: ALLOWING})
    link = stage.folder / "link"
    link.symlink_to(folder)
    stage.daemon.call("trust/grant", folder=str(link))
    assert decisions(runs(stage, bash("touch it"), folder=folder)) == [("allow", "rule")]


def test_a_hook_that_appears_in_the_middle_of_a_turn_does_not_act(stage: Stage) -> None:
    talk = stage.talk(message(bash("touch it")), DONE, folder=project(stage))
    turn_id = talk.start()
    ask = talk.ask()
    write(talk.folder, OURS, declared("PostToolUse", "touch acted"))
    assert explained_command(talk, "ls")["behavior"] == "allow"  # the file has been looked at
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert not (talk.folder / "acted").exists()


def test_a_yes_is_about_what_the_person_was_shown(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, ALLOWING)
    write(talk.folder, OURS, {**ALLOWING, **SUBMITTING})
    assert len(stage.daemon.call("hook/list", session_id=talk.id)["hooks"]) == 1  # the change has been seen
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "trust"})
    assert error["data"]["code"] == "conflict"
    talk.answer(ask, "restrict")
    talk.answer(talk.ask(), "deny", message="no")
    talk.ended(turn_id)
    assert not (talk.folder / "acted").exists()
