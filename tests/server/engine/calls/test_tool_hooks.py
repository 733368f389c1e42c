"""Hooks around a call: before it, instead of a person, and after it."""

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Stage
from tests.support.hooks import deciding, hooked, printing, request_text, runs_of, told
from tests.support.messages_api.replies import message
from tests.support.model_replies import bash, read
from tests.support.projects import OURS, decision, decisions, notices, project, rules, runs, talk_of, write

PRE = "PreToolUse"


def test_a_hook_is_told_all_about_the_call(stage: Stage) -> None:
    folder = hooked(stage, PRE, {})
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    (given,) = told(folder)
    assert (given["session_id"], given["cwd"], given["permission_mode"]) == (talk.id, str(folder), "default")
    assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == (PRE, "Bash", {"command": "ls"})
    assert given["tool_use_id"].startswith("toolu_")


def test_a_hooks_deny_denies_in_its_words(stage: Stage) -> None:
    folder = hooked(stage, PRE, deciding(PRE, permissionDecision="deny", permissionDecisionReason="not on Fridays"))
    talk = runs(stage, bash("ls"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert decisions(talk) == [("deny", "hook")]
    assert "not on Fridays" in talk.result_texts()[0]
    assert runs_of(talk)[0]["outcome"] == "denied"


def test_a_hooks_deny_comes_before_a_rule_that_asks(stage: Stage) -> None:
    folder = hooked(stage, "PreToolUse", deciding("PreToolUse", permissionDecision="deny"))
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True, rules={"ask": ["Bash(touch:*)"]})
    talk.turn()
    assert decisions(talk) == [("deny", "hook")]
    assert talk.types("ask.opened") == []


def test_exit_code_two_denies_with_what_was_said_on_stderr(bypassing: Stage) -> None:
    folder = hooked(bypassing, PRE, "echo never here >&2; exit 2")
    talk = runs(bypassing, bash("touch it"), folder=folder, trust=True, mode="bypassPermissions")
    assert decisions(talk) == [("deny", "hook")]
    assert "never here" in talk.result_texts()[0]


def test_a_hooks_ask_asks_in_every_mode(bypassing: Stage) -> None:
    folder = hooked(bypassing, PRE, deciding(PRE, permissionDecision="ask", permissionDecisionReason="look at it"))
    talk = talk_of(
        bypassing, bash("ls"), folder=folder, trust=True, mode="bypassPermissions", rules={"allow": ["Bash"]}
    )
    turn_id = talk.start()
    ask = talk.ask()
    assert ask["reason"] == "look at it"
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert decisions(talk) == [("allow", "person")]


def test_a_hooks_allow_skips_the_question_and_nothing_else(stage: Stage) -> None:
    folder = hooked(stage, PRE, deciding(PRE, permissionDecision="allow"))
    given = {"deny": ["Bash(touch denied)"], "ask": ["Bash(touch asked)"]}
    names = ("it", "denied", "asked", ".envrc")
    talk = runs(stage, *(bash(f"touch {name}") for name in names), folder=folder, trust=True, rules=given)
    assert decisions(talk) == [("allow", "hook"), ("deny", "rule"), ("deny", "on_ask"), ("deny", "safety")]


def test_an_input_that_a_hook_changed_is_what_runs(stage: Stage) -> None:
    answer = deciding(PRE, permissionDecision="allow", updatedInput={"command": "touch changed"})
    folder = hooked(stage, PRE, answer)
    talk = runs(stage, bash("touch written"), folder=folder, trust=True)
    assert (folder / "changed").exists()
    assert not (folder / "written").exists()
    assert talk.all("tool.completed")[0]["call"]["input"] == {"command": "touch changed"}


@pytest.mark.parametrize(
    "changed", [{"command": "rm -rf kept"}, {"cmd": "ls"}, {"command": ""}, {"command": "ls", "timeout": 0}], ids=str
)
def test_an_input_that_a_hook_changed_passes_schema_checks_and_deny_rules_again(stage: Stage, changed: object) -> None:
    folder = hooked(stage, PRE, deciding(PRE, permissionDecision="allow", updatedInput=changed))
    (folder / "kept").mkdir()
    talk = runs(stage, bash("touch written"), folder=folder, trust=True, rules={"deny": ["Bash(rm:*)"]})
    assert talk.results()[0]["is_error"]
    assert talk.all("tool.started") == []
    assert (folder / "kept").exists()


def test_an_input_that_a_hook_changed_is_judged_as_it_is_now(stage: Stage) -> None:
    folder = hooked(stage, PRE, deciding(PRE, updatedInput={"command": "touch x"}))
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert decisions(talk) == [("deny", "on_ask")]
    assert not (folder / "x").exists()


def test_words_that_a_hook_adds_reach_the_model_with_the_result(stage: Stage) -> None:
    folder = hooked(stage, PRE, deciding(PRE, additionalContext="the tests take long"))
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert "the tests take long" not in request_text(talk, 0)
    assert "the tests take long" in request_text(talk, 1)


@pytest.mark.parametrize("event", [PRE, "PostToolUse"])
def test_continue_false_ends_the_turn_after_the_call(stage: Stage, event: str) -> None:
    folder = hooked(stage, event, {"continue": False, "stopReason": "the build is broken"})
    talk = talk_of(stage, bash("ls"), bash("ls -a"), folder=folder, trust=True)
    turn = talk.turn()
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "the build is broken")
    assert len(talk.requests) == 1
    assert len(talk.results()) == 1
    (folder / OURS).unlink()
    talk.is_usable()


def test_a_hook_is_run_for_the_tools_that_its_matcher_names(stage: Stage) -> None:
    folder = hooked(stage, PRE, {}, "Read|Edit")
    (folder / "a").write_text("a\n")
    runs(stage, bash("ls"), read(folder / "a"), folder=folder, trust=True)
    assert [given["tool_name"] for given in told(folder)] == ["Read"]


def test_a_hooks_condition_is_a_permission_rule(stage: Stage) -> None:
    folder = hooked(stage, PRE, {}, "Bash", **{"if": "Bash(git status:*)"})
    runs(stage, bash("ls"), bash("ls && git status"), folder=folder, trust=True)
    assert [given["tool_input"]["command"] for given in told(folder)] == ["ls && git status"]


def test_a_hook_that_fails_is_a_warning_and_the_work_goes_on(stage: Stage) -> None:
    folder = hooked(stage, PRE, "echo broken >&2; exit 1")
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert decisions(talk) == [("allow", "read_only")]
    assert runs_of(talk)[0]["outcome"] == "failed"
    assert any("broken" in text for text in notices(talk))


def test_a_hook_that_hangs_is_killed_at_its_time_limit_and_the_turn_goes_on(stage: Stage) -> None:
    folder = hooked(stage, PRE, "sleep 1000 & sleep 1000", timeout=1)
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert decisions(talk) == [("allow", "read_only")]
    assert runs_of(talk)[0]["outcome"] == "timed_out"
    write(folder, OURS, {})
    talk.is_usable()  # and nothing of it is left


def test_an_interrupt_ends_a_hook(stage: Stage) -> None:
    folder = hooked(stage, PRE, "touch begun; sleep 1000")
    talk = talk_of(stage, bash("ls"), folder=folder, trust=True)
    turn_id = talk.start()
    wait_until((folder / "begun").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    write(folder, OURS, {})
    talk.is_usable()


# In the place of a person.


def test_a_hook_answers_an_ask_and_the_person_who_is_slower_is_told(stage: Stage) -> None:
    folder = hooked(stage, "PermissionRequest", deciding("PermissionRequest", decision={"behavior": "allow"}))
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True)
    turn_id = talk.start()
    ask = talk.ask()
    settled = talk.wait("ask.resolved")["data"]["ask"]
    assert settled["answered_by"].startswith("hook: ")
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "deny"})
    assert error["data"]["code"] == "ask_resolved"
    assert error["data"]["ask"]["answered_by"] == settled["answered_by"]
    talk.ended(turn_id)
    assert (folder / "it").exists()
    assert decisions(talk) == [("allow", "hook")]


def test_a_person_who_is_faster_than_the_hook_decides(stage: Stage) -> None:
    answer = printing(deciding("PermissionRequest", decision={"behavior": "deny"}))
    folder = hooked(stage, "PermissionRequest", f"until [ -e go ]; do sleep 0.01; done; {answer}")
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True)
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow")
    talk.ended(turn_id)
    assert (folder / "it").exists()
    assert decisions(talk) == [("allow", "person")]


def test_a_hooks_no_to_an_ask_is_told_in_its_words(stage: Stage) -> None:
    answer = deciding("PermissionRequest", decision={"behavior": "deny", "message": "not on Fridays"})
    folder = hooked(stage, "PermissionRequest", answer)
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True)
    assert talk.turn()["reason"] == "completed"
    assert "not on Fridays" in talk.result_texts()[0]
    assert decisions(talk) == [("deny", "hook")]


def test_a_hook_that_says_nothing_leaves_the_ask_to_the_person_and_notification_hears_of_it(stage: Stage) -> None:
    folder = hooked(stage, "Notification", "cat > told; echo >> told")
    talk = talk_of(stage, bash("touch it"), folder=folder, trust=True)
    turn_id = talk.start()
    ask = talk.ask()
    talk.wait("hook.ran")
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    (given,) = told(folder)
    assert (given["notification_type"], given["message"]) == ("permission_prompt", ask["message"])


# Afterwards.


def test_a_hook_after_the_call_sees_its_output_and_adds_words(stage: Stage) -> None:
    folder = hooked(stage, "PostToolUse", deciding("PostToolUse", additionalContext="format it, too"))
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    (given,) = told(folder)
    assert given["tool_response"]["exit_code"] == 0
    assert "format it, too" in request_text(talk, 1)


def test_a_no_after_the_call_is_told_to_the_model(stage: Stage) -> None:
    folder = hooked(stage, "PostToolUse", {"decision": "block", "reason": "the linter complains"})
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    assert "the linter complains" in request_text(talk, 1)


def test_a_call_that_failed_has_a_hook_of_its_own(stage: Stage) -> None:
    folder = hooked(stage, "PostToolUseFailure", deciding("PostToolUseFailure", additionalContext="look at the log"))
    talk = runs(stage, bash("ls"), bash("false"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert [given["tool_input"]["command"] for given in told(folder)] == ["false"]
    assert "look at the log" in request_text(talk, 2)


def test_runs_are_stored_and_told_again(stage: Stage) -> None:
    folder = hooked(stage, PRE, deciding(PRE, permissionDecision="deny", permissionDecisionReason="no"), "Bash")
    talk = runs(stage, bash("ls"), folder=folder, trust=True)
    (run,) = runs_of(talk)
    assert (run["event"], run["source"], run["kind"], run["exit_code"]) == (PRE, "project", "command", 0)
    assert run["file"] == str(folder / OURS)
    assert run["call_id"] == talk.all("tool.completed")[0]["call"]["call_id"]
    with stage.daemon.follow(f"?session={talk.id}&after=0") as late:
        assert late.until("hook.ran")["data"]["run"] == run


def test_hook_list_shows_where_each_stands_and_whether_it_acts(stage: Stage) -> None:
    folder = hooked(stage, PRE, "true", "Bash", **{"if": "Bash(ls)", "timeout": 5})
    talk = stage.talk(folder=folder)
    (found,) = stage.daemon.call("hook/list", session_id=talk.id)["hooks"]
    assert (found["event"], found["kind"], found["shown"], found["matcher"]) == (PRE, "command", "true", "Bash")
    assert (found["condition"], found["timeout_ms"], found["source"]) == ("Bash(ls)", 5000, "project")
    assert (found["file"], found["acts"]) == (str(folder / OURS), False)
    trusting = stage.talk(folder=folder, trust=True)
    assert stage.daemon.call("hook/list", session_id=trusting.id)["hooks"][0]["acts"] is True


def test_the_daemons_token_and_the_models_key_are_not_in_a_hooks_environment(stage: Stage) -> None:
    folder = hooked(stage, PRE, "env > seen")
    runs(stage, bash("ls"), folder=folder, trust=True)
    seen = (folder / "seen").read_text()
    assert stage.daemon.token not in seen
    assert "ANTHROPIC_API_KEY" not in seen
    assert f"CLAUDE_PROJECT_DIR={folder}" in seen


def test_a_projects_deny_rule_needs_no_trust_beside_a_hook_that_does(stage: Stage) -> None:
    folder = project(stage, {OURS: {**rules(deny=["Bash(ls)"]), "hooks": {}}})
    talk = runs(stage, bash("ls"), folder=folder)
    assert decision(talk)["rule"] == "Bash(ls)"


def test_a_no_of_a_hook_that_ends_the_turn_is_told_as_the_hooks(stage: Stage) -> None:
    no = {"behavior": "deny", "message": "not today", "interrupt": True}
    folder = hooked(stage, "PermissionRequest", deciding("PermissionRequest", decision=no))
    talk = stage.talk(message(bash("touch it"), bash("touch that")), folder=folder, trust=True)
    assert talk.turn()["reason"] == "interrupted"
    refused, waiting = talk.result_texts()
    assert "A hook said no to this call, in these words: not today" in refused
    assert "a hook said no to another call" in waiting
