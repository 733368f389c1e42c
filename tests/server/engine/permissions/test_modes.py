"""The modes: what each lets pass, asks and denies."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import declare_hook
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import DONE, bash, read, write
from tests.support.projects import (
    explain_command,
    explain_rule,
    get_last_decision,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
    write_settings,
)

CLASSIFIER = "classifier-of-the-tests"

_numbers = itertools.count(1)


# acceptEdits, plan, dontAsk, bypassPermissions.


def test_accept_edits_lets_edits_and_simple_file_commands_pass_inside_the_roots(harness: Harness) -> None:
    folder = make_project(harness)
    outside = harness.folder / "outside"
    blocks = [write(folder / "a"), bash("mkdir d"), bash("cp a d/b"), write(outside), bash("touch ../x"), bash("cc")]
    driver = run_calls(harness, *blocks, folder=folder, mode="acceptEdits")
    assert [behavior for behavior, _ in list_decisions(driver)] == ["allow", "allow", "allow", "deny", "deny", "deny"]
    assert (folder / "d" / "b").exists()
    assert not outside.exists()


def test_accept_edits_asks_before_a_guarded_file_is_written_by_a_command_too(harness: Harness) -> None:
    driver = harness.open_session(mode="acceptEdits")
    for command in ("touch .envrc", "cp x .git/hooks/pre-commit", "mkdir -p .ostler/hooks", "touch .ENVRC"):
        found = explain_command(driver, command)
        assert (found["behavior"], found["by"]) == ("ask", "safety"), command


def test_accept_edits_writes_no_guarded_and_no_outside_file_by_whatever_a_command_does(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    """Without the sandbox, in the person's home folder: what is planted there would run at the next call."""
    folder = tmp_path / "person"
    harness = own_harness(OSTLER_SANDBOX__MODE="off", HOME=str(folder))
    for name in ("tmpl/settings.json", "tmpl/.envrc", "src/victim", "plain/settings.json"):
        write_settings(folder, name, declare_hook("PreToolUse", f"touch {tmp_path}/ran"))
    (folder / ".claude").mkdir()
    (folder / "sub").mkdir()
    (tmp_path / "victim").write_text("old")
    (folder / "sub" / "victim").symlink_to(tmp_path / "victim")
    commands = (
        "cp tmpl/settings.json .claude", "cp tmpl/settings.json .claude/", "cp tmpl/.envrc .", "cp src/victim sub",
        "mv plain .ostler", "mv plain .ostler/", "touch done",
    )  # fmt: skip
    driver = run_calls(harness, *map(bash, commands), folder=folder, mode="acceptEdits")
    assert [behavior for behavior, _ in list_decisions(driver)] == ["deny"] * 6 + ["allow"]
    assert not any((folder / name).exists() for name in (".claude/settings.json", ".envrc", ".ostler"))
    assert (tmp_path / "victim").read_text() == "old"
    assert not (tmp_path / "ran").exists()


def test_plan_mode_reads_and_changes_nothing(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "a").write_text("a\n")
    blocks = [read(folder / "a"), bash("ls"), bash("touch x"), write(folder / "b")]
    driver = run_calls(harness, *blocks, folder=folder, mode="plan", rules={"allow": ["Bash", "Edit"]})
    assert [behavior for behavior, _ in list_decisions(driver)] == ["allow", "allow", "deny", "deny"]
    assert "plan mode" in driver.fetch_result_texts()[2]
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_plan_mode_lets_the_sessions_own_state_change(harness: Harness) -> None:
    driver = harness.open_session(mode="plan")
    found = explain_rule(driver.daemon, driver.id, "TaskStop", task_id="b00000000")
    assert found["behavior"] == "allow", found


def test_plan_mode_knows_a_long_command_that_only_reads(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "a").write_text("a\n")
    long = "cat" + " a" * 5_000
    driver = run_calls(harness, bash(long), bash(f"{long} > b"), bash(long + "; touch b"), folder=folder, mode="plan")
    assert list_decisions(driver) == [("allow", "read_only"), ("deny", "mode"), ("deny", "mode")]
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_plan_mode_goes_on_down_the_chain_for_what_only_reads(harness: Harness) -> None:
    driver = harness.open_session(mode="plan")
    assert explain_rule(harness.daemon, driver.id, "Read", file_path="/etc/hostname")["behavior"] == "ask"


def test_dont_ask_denies_what_would_ask_and_names_the_rule(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("make it"), mode="dontAsk")
    turn = driver.run_turn()
    assert list_decisions(driver) == [("deny", "mode")]
    assert "Bash(make" in driver.fetch_result_texts()[0]
    assert turn["denials"][0]["allow_with"] in driver.fetch_result_texts()[0]
    assert driver.list_event_types("ask.opened") == []
    allowed = run_calls(harness, bash("touch it"), mode="dontAsk", rules={"allow": [f"Bash({'touch it'})"]})
    assert list_decisions(allowed) == [("allow", "rule")]


def test_bypass_lets_everything_pass_but_what_is_denied_asked_by_rule_or_guarded(bypassing_harness: Harness) -> None:
    given = {"deny": ["Bash(rm x)"], "ask": ["Bash(git push)"]}
    driver = bypassing_harness.open_session(mode="bypassPermissions", rules=given)
    found = {each: explain_command(driver, each) for each in ("cc x.c", "rm x", "git push", "touch .envrc")}
    assert {command: (each["behavior"], each["by"]) for command, each in found.items()} == {
        "cc x.c": ("allow", "mode"),
        "rm x": ("deny", "rule"),
        "git push": ("ask", "rule"),
        "touch .envrc": ("ask", "safety"),
    }


def test_bypass_is_forbidden_where_the_configuration_does_not_allow_it(harness: Harness) -> None:
    driver = harness.open_session()
    error = harness.daemon.expect_error("session/create", cwd=str(driver.folder), mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"
    error = harness.daemon.expect_error("turn/start", session_id=driver.id, input="x", mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"


def test_bypass_after_a_restart_that_does_not_allow_it_any_more_is_treated_as_default(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    driver = harness.open_session(
        message(bash("touch a")), DONE, message(bash("touch b")), DONE, mode="bypassPermissions"
    )
    driver.run_turn()
    assert list_decisions(driver) == [("allow", "mode")]
    del harness.daemon.environment["OSTLER_PERMISSIONS__ALLOW_BYPASS"]
    harness.restart()
    assert explain_command(driver, "touch b")["behavior"] == "ask"
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "deny", message="no")
    driver.wait_for_turn_end(turn_id)
    assert not (driver.folder / "b").exists()


# auto.


def make_verdict_reply(verdict: str, reason: str = "because") -> Reply:
    return message(says(json.dumps({"verdict": verdict, "reason": reason})))


def script_classifier(harness: Harness, answer: Callable[[str], Reply]) -> list[str]:
    """From now on the model judges calls; returns the calls that it was shown."""
    shown: list[str] = []

    def step(request: RecordedRequest) -> Reply:
        text = str(request.messages[0]["content"][0]["text"])
        call: Json = json.loads(text.partition("<call>\n")[2].partition("\n</call>")[0])
        shown.append(str(call["text"]))
        return answer(str(call["text"]))

    harness.api.script(CLASSIFIER, otherwise=step)
    return shown


def start_auto_session(harness: Harness, *commands: str, **session: object) -> SessionDriver:
    """A session in mode auto, which has begun."""
    driver = open_session_with_calls(harness, *map(bash, commands), **{"mode": "auto", **session})
    driver.start()
    return driver


def make_command(words: str) -> str:
    """A command with the mark that finds the classifier's script, for it is told nothing else."""
    return f"make '[{CLASSIFIER}:{next(_numbers)}]' {words}"


def test_in_auto_the_models_verdict_decides(harness: Harness) -> None:
    shown = script_classifier(
        harness, lambda call: make_verdict_reply("allow" if "good" in call else "deny", "I say so")
    )
    commands = [make_command("good"), make_command("bad")]
    driver = start_auto_session(harness, *commands)
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "classifier"), ("deny", "classifier")]
    assert shown == commands
    assert "I say so" in driver.fetch_result_texts()[1]
    assert get_last_decision(driver)["reason"] == "I say so"


@pytest.mark.parametrize("answer", ["ask", "perhaps"])
def test_in_auto_whatever_is_not_a_clear_word_asks_a_person(harness: Harness, answer: str) -> None:
    script_classifier(harness, lambda call: make_verdict_reply(answer))
    driver = start_auto_session(harness, make_command("it"))
    ask = driver.wait_for_ask()
    assert "classifier" in ask["reason"]
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end()


def test_in_auto_high_risk_asks_without_the_model(harness: Harness) -> None:
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow"))
    driver = start_auto_session(harness, "rm -rf ../other")
    ask = driver.wait_for_ask()
    assert "risk" in ask["reason"].lower()
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end()
    assert shown == []


def test_in_auto_what_only_reads_does_not_need_the_model(harness: Harness) -> None:
    shown = script_classifier(harness, lambda call: make_verdict_reply("deny"))
    driver = start_auto_session(harness, "ls")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "read_only")]
    assert shown == []


def test_in_auto_rules_stand_above_the_model(harness: Harness) -> None:
    script_classifier(harness, lambda call: make_verdict_reply("allow"))
    driver = start_auto_session(harness, make_command("bad"), rules={"deny": ["Bash(make:*)"]})
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("deny", "rule")]


def test_after_three_denials_in_a_row_a_person_decides(harness: Harness) -> None:
    script_classifier(harness, lambda call: make_verdict_reply("deny"))
    driver = start_auto_session(harness, *map(make_command, "abcde"))
    ask = driver.wait_for_ask()
    assert ask["call"]["input"]["command"].endswith(" d")
    assert "3 calls in a row" in ask["reason"]
    driver.answer(ask, "deny", message="not this one")
    driver.wait_for_turn_end()
    by = [each for _, each in list_decisions(driver)]
    assert by == ["classifier", "classifier", "classifier", "person", "classifier"]


def test_in_auto_a_session_that_nobody_watches_denies_what_the_classifier_would_ask(harness: Harness) -> None:
    script_classifier(harness, lambda call: make_verdict_reply("ask"))
    driver = start_auto_session(harness, make_command("it"), on_ask="deny")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("deny", "on_ask")]


def test_the_classifier_of_commands_settles_them_in_default_mode_where_it_is_on(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    script_classifier(harness, lambda call: make_verdict_reply("allow" if "good" in call else "deny"))
    driver = start_auto_session(harness, make_command("good"), make_command("bad"), mode="default")
    driver.wait_for_ask()
    ask = driver.wait_for_ask()
    # Its no is only an opinion outside of mode auto.
    assert ask["call"]["input"]["command"].endswith(" bad")
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "classifier"), ("deny", "person")]


def test_the_rehearsal_has_a_stand_in_for_the_classifier(harness: Harness) -> None:
    """Its model does what the prompt says, word for word."""
    driver = harness.open_session(mode="auto", model="rehearsal", on_ask="deny")
    turn = harness.daemon.call("turn/start", session_id=driver.id, input="run make test")
    driver.wait_for_turn_end(turn["id"])
    assert list_decisions(driver) == [("allow", "classifier")]
    assert get_last_decision(driver)["source"] == "rehearsal"
