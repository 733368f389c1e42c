"""The modes: what each lets pass, asks and denies."""

import itertools
import json
from collections.abc import Callable

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import DONE, bash, read, write
from tests.support.projects import decision, decisions, explained, explained_command, project, runs, talk_of

CLASSIFIER = "classifier-of-the-tests"

_numbers = itertools.count(1)


# acceptEdits, plan, dontAsk, bypassPermissions.


def test_accept_edits_lets_edits_and_simple_file_commands_pass_inside_the_roots(stage: Stage) -> None:
    folder = project(stage)
    outside = stage.folder / "outside"
    blocks = [write(folder / "a"), bash("mkdir d"), bash("cp a d/b"), write(outside), bash("touch ../x"), bash("cc")]
    talk = runs(stage, *blocks, folder=folder, mode="acceptEdits")
    assert [behavior for behavior, _ in decisions(talk)] == ["allow", "allow", "allow", "deny", "deny", "deny"]
    assert (folder / "d" / "b").exists()
    assert not outside.exists()


def test_accept_edits_asks_before_a_guarded_file_is_written_by_a_command_too(stage: Stage) -> None:
    talk = stage.talk(mode="acceptEdits")
    for command in ("touch .envrc", "cp x .git/hooks/pre-commit", "mkdir -p .ostler/hooks", "touch .ENVRC"):
        found = explained_command(talk, command)
        assert (found["behavior"], found["by"]) == ("ask", "safety"), command


def test_plan_mode_reads_and_changes_nothing(stage: Stage) -> None:
    folder = project(stage)
    (folder / "a").write_text("a\n")
    blocks = [read(folder / "a"), bash("ls"), bash("touch x"), write(folder / "b")]
    talk = runs(stage, *blocks, folder=folder, mode="plan", rules={"allow": ["Bash", "Edit"]})
    assert [behavior for behavior, _ in decisions(talk)] == ["allow", "allow", "deny", "deny"]
    assert "plan mode" in talk.result_texts()[2]
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_plan_mode_knows_a_long_command_that_only_reads(stage: Stage) -> None:
    folder = project(stage)
    (folder / "a").write_text("a\n")
    long = "cat" + " a" * 5_000
    talk = runs(stage, bash(long), bash(f"{long} > b"), bash(long + "; touch b"), folder=folder, mode="plan")
    assert decisions(talk) == [("allow", "read_only"), ("deny", "mode"), ("deny", "mode")]
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_plan_mode_goes_on_down_the_chain_for_what_only_reads(stage: Stage) -> None:
    talk = stage.talk(mode="plan")
    assert explained(stage.daemon, talk.id, "Read", file_path="/etc/hostname")["behavior"] == "ask"


def test_dont_ask_denies_what_would_ask_and_names_the_rule(stage: Stage) -> None:
    talk = talk_of(stage, bash("make it"), mode="dontAsk")
    turn = talk.turn()
    assert decisions(talk) == [("deny", "mode")]
    assert "Bash(make" in talk.result_texts()[0]
    assert turn["denials"][0]["allow_with"] in talk.result_texts()[0]
    assert talk.types("ask.opened") == []
    allowed = runs(stage, bash("touch it"), mode="dontAsk", rules={"allow": [f"Bash({'touch it'})"]})
    assert decisions(allowed) == [("allow", "rule")]


def test_bypass_lets_everything_pass_but_what_is_denied_asked_by_rule_or_guarded(bypassing: Stage) -> None:
    given = {"deny": ["Bash(rm x)"], "ask": ["Bash(git push)"]}
    talk = bypassing.talk(mode="bypassPermissions", rules=given)
    found = {each: explained_command(talk, each) for each in ("cc x.c", "rm x", "git push", "touch .envrc")}
    assert {command: (each["behavior"], each["by"]) for command, each in found.items()} == {
        "cc x.c": ("allow", "mode"),
        "rm x": ("deny", "rule"),
        "git push": ("ask", "rule"),
        "touch .envrc": ("ask", "safety"),
    }


def test_bypass_is_forbidden_where_the_configuration_does_not_allow_it(stage: Stage) -> None:
    talk = stage.talk()
    error = stage.daemon.error("session/create", cwd=str(talk.folder), mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"
    error = stage.daemon.error("turn/start", session_id=talk.id, input="x", mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"


def test_bypass_after_a_restart_that_does_not_allow_it_any_more_is_treated_as_default(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage(OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    talk = stage.talk(message(bash("touch a")), DONE, message(bash("touch b")), DONE, mode="bypassPermissions")
    talk.turn()
    assert decisions(talk) == [("allow", "mode")]
    del stage.daemon.environment["OSTLER_PERMISSIONS__ALLOW_BYPASS"]
    stage.restart()
    assert explained_command(talk, "touch b")["behavior"] == "ask"
    turn_id = talk.start()
    talk.answer(talk.ask(), "deny", message="no")
    talk.ended(turn_id)
    assert not (talk.folder / "b").exists()


# auto.


def judged(verdict: str, reason: str = "because") -> Reply:
    return message(says(json.dumps({"verdict": verdict, "reason": reason})))


def classifying(stage: Stage, answer: Callable[[str], Reply]) -> list[str]:
    """From now on the model judges calls; returns the calls that it was shown."""
    shown: list[str] = []

    def step(request: Recorded) -> Reply:
        text = str(request.messages[0]["content"][0]["text"])
        call: Json = json.loads(text.partition("<call>\n")[2].partition("\n</call>")[0])
        shown.append(str(call["text"]))
        return answer(str(call["text"]))

    stage.api.script(CLASSIFIER, otherwise=step)
    return shown


def auto(stage: Stage, *commands: str, **session: object) -> Talk:
    """A talk in mode auto, which has begun."""
    talk = talk_of(stage, *map(bash, commands), **{"mode": "auto", **session})
    talk.start()
    return talk


def make(words: str) -> str:
    """A command with the mark that finds the classifier's script, for it is told nothing else."""
    return f"make '[{CLASSIFIER}:{next(_numbers)}]' {words}"


def test_in_auto_the_models_verdict_decides(stage: Stage) -> None:
    shown = classifying(stage, lambda call: judged("allow" if "good" in call else "deny", "I say so"))
    commands = [make("good"), make("bad")]
    talk = auto(stage, *commands)
    talk.ended()
    assert decisions(talk) == [("allow", "classifier"), ("deny", "classifier")]
    assert shown == commands
    assert "I say so" in talk.result_texts()[1]
    assert decision(talk)["reason"] == "I say so"


@pytest.mark.parametrize("answer", ["ask", "perhaps"])
def test_in_auto_whatever_is_not_a_clear_word_asks_a_person(stage: Stage, answer: str) -> None:
    classifying(stage, lambda call: judged(answer))
    talk = auto(stage, make("it"))
    ask = talk.ask()
    assert "classifier" in ask["reason"]
    talk.answer(ask, "deny", message="no")
    talk.ended()


def test_in_auto_high_risk_asks_without_the_model(stage: Stage) -> None:
    shown = classifying(stage, lambda call: judged("allow"))
    talk = auto(stage, "rm -rf ../other")
    ask = talk.ask()
    assert "risk" in ask["reason"].lower()
    talk.answer(ask, "deny", message="no")
    talk.ended()
    assert shown == []


def test_in_auto_what_only_reads_does_not_need_the_model(stage: Stage) -> None:
    shown = classifying(stage, lambda call: judged("deny"))
    talk = auto(stage, "ls")
    talk.ended()
    assert decisions(talk) == [("allow", "read_only")]
    assert shown == []


def test_in_auto_rules_stand_above_the_model(stage: Stage) -> None:
    classifying(stage, lambda call: judged("allow"))
    talk = auto(stage, make("bad"), rules={"deny": ["Bash(make:*)"]})
    talk.ended()
    assert decisions(talk) == [("deny", "rule")]


def test_after_three_denials_in_a_row_a_person_decides(stage: Stage) -> None:
    classifying(stage, lambda call: judged("deny"))
    talk = auto(stage, *map(make, "abcde"))
    ask = talk.ask()
    assert ask["call"]["input"]["command"].endswith(" d")
    assert "3 calls in a row" in ask["reason"]
    talk.answer(ask, "deny", message="not this one")
    talk.ended()
    by = [each for _, each in decisions(talk)]
    assert by == ["classifier", "classifier", "classifier", "person", "classifier"]


def test_in_auto_a_session_that_nobody_watches_denies_what_the_classifier_would_ask(stage: Stage) -> None:
    classifying(stage, lambda call: judged("ask"))
    talk = auto(stage, make("it"), on_ask="deny")
    talk.ended()
    assert decisions(talk) == [("deny", "on_ask")]


def test_the_classifier_of_commands_settles_them_in_default_mode_where_it_is_on(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    classifying(stage, lambda call: judged("allow" if "good" in call else "deny"))
    talk = auto(stage, make("good"), make("bad"), mode="default")
    ask = talk.ask()
    # Its no is only an opinion outside of mode auto.
    assert ask["call"]["input"]["command"].endswith(" bad")
    talk.answer(ask, "deny", message="no")
    talk.ended()
    assert decisions(talk) == [("allow", "classifier"), ("deny", "person")]


def test_the_rehearsal_has_a_stand_in_for_the_classifier(stage: Stage) -> None:
    """Its model does what the prompt says, word for word."""
    talk = stage.talk(mode="auto", model="rehearsal", on_ask="deny")
    turn = stage.daemon.call("turn/start", session_id=talk.id, input="run make test")
    talk.ended(turn["id"])
    assert decisions(talk) == [("allow", "classifier")]
    assert decision(talk)["source"] == "rehearsal"
