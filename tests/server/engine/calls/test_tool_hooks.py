"""Hooks around a call: before it, instead of a person, and after it."""

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness
from tests.support.hooks import (
    build_decision,
    build_hook_command,
    dump_request,
    list_hook_runs,
    make_project_with_hook,
    read_hook_inputs,
)
from tests.support.messages_api.replies import message
from tests.support.model_replies import bash, read, write
from tests.support.projects import (
    OSTLER_SETTINGS,
    build_rules,
    get_last_decision,
    list_decisions,
    list_notices,
    make_project,
    open_session_with_calls,
    run_calls,
    write_settings,
)

PRE = "PreToolUse"


def test_a_hook_is_told_all_about_the_call(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, {})
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    (given,) = read_hook_inputs(folder)
    assert (given["session_id"], given["cwd"], given["permission_mode"]) == (driver.id, str(folder), "default")
    assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == (PRE, "Bash", {"command": "ls"})
    assert given["tool_use_id"].startswith("toolu_")


def test_a_hooks_deny_denies_in_its_words(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, PRE, build_decision(PRE, permissionDecision="deny", permissionDecisionReason="not on Fridays")
    )
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert list_decisions(driver) == [("deny", "hook")]
    assert "not on Fridays" in driver.fetch_result_texts()[0]
    assert list_hook_runs(driver)[0]["outcome"] == "denied"


def test_a_hooks_deny_comes_before_a_rule_that_asks(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "PreToolUse", build_decision("PreToolUse", permissionDecision="deny"))
    driver = open_session_with_calls(
        harness, bash("touch it"), folder=folder, trust=True, rules={"ask": ["Bash(touch:*)"]}
    )
    driver.run_turn()
    assert list_decisions(driver) == [("deny", "hook")]
    assert driver.list_event_types("ask.opened") == []


def test_exit_code_two_denies_with_what_was_said_on_stderr(bypassing_harness: Harness) -> None:
    folder = make_project_with_hook(bypassing_harness, PRE, "echo never here >&2; exit 2")
    driver = run_calls(bypassing_harness, bash("touch it"), folder=folder, trust=True, mode="bypassPermissions")
    assert list_decisions(driver) == [("deny", "hook")]
    assert "never here" in driver.fetch_result_texts()[0]


def test_a_hooks_ask_asks_in_every_mode(bypassing_harness: Harness) -> None:
    folder = make_project_with_hook(
        bypassing_harness, PRE, build_decision(PRE, permissionDecision="ask", permissionDecisionReason="look at it")
    )
    driver = open_session_with_calls(
        bypassing_harness, bash("ls"), folder=folder, trust=True, mode="bypassPermissions", rules={"allow": ["Bash"]}
    )
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["reason"] == "look at it"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert list_decisions(driver) == [("allow", "person")]


def test_a_hooks_allow_skips_the_question_and_nothing_else(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, build_decision(PRE, permissionDecision="allow"))
    given = {"deny": ["Bash(touch denied)"], "ask": ["Bash(touch asked)"]}
    names = ("it", "denied", "asked", ".envrc")
    driver = run_calls(harness, *(bash(f"touch {name}") for name in names), folder=folder, trust=True, rules=given)
    assert list_decisions(driver) == [("allow", "hook"), ("deny", "rule"), ("deny", "on_ask"), ("deny", "safety")]


def test_an_input_that_a_hook_changed_is_what_runs(harness: Harness) -> None:
    answer = build_decision(PRE, permissionDecision="allow", updatedInput={"command": "touch changed"})
    folder = make_project_with_hook(harness, PRE, answer)
    driver = run_calls(harness, bash("touch written"), folder=folder, trust=True)
    assert (folder / "changed").exists()
    assert not (folder / "written").exists()
    assert driver.list_event_data("tool.completed")[0]["call"]["input"] == {"command": "touch changed"}


@pytest.mark.parametrize(
    "changed", [{"command": "rm -rf kept"}, {"cmd": "ls"}, {"command": ""}, {"command": "ls", "timeout": 0}], ids=str
)
def test_an_input_that_a_hook_changed_passes_schema_checks_and_deny_rules_again(
    harness: Harness, changed: object
) -> None:
    folder = make_project_with_hook(harness, PRE, build_decision(PRE, permissionDecision="allow", updatedInput=changed))
    (folder / "kept").mkdir()
    driver = run_calls(harness, bash("touch written"), folder=folder, trust=True, rules={"deny": ["Bash(rm:*)"]})
    assert driver.fetch_results()[0]["is_error"]
    assert driver.list_event_data("tool.started") == []
    assert (folder / "kept").exists()


def test_an_input_that_a_hook_changed_is_judged_as_it_is_now(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, build_decision(PRE, updatedInput={"command": "touch x"}))
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert list_decisions(driver) == [("deny", "on_ask")]
    assert not (folder / "x").exists()


def test_words_that_a_hook_adds_reach_the_model_with_the_result(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, build_decision(PRE, additionalContext="the tests take long"))
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert "the tests take long" not in dump_request(driver, 0)
    assert "the tests take long" in dump_request(driver, 1)


@pytest.mark.parametrize("event", [PRE, "PostToolUse"])
def test_continue_false_ends_the_turn_after_the_call(harness: Harness, event: str) -> None:
    folder = make_project_with_hook(harness, event, {"continue": False, "stopReason": "the build is broken"})
    driver = open_session_with_calls(harness, bash("ls"), bash("ls -a"), folder=folder, trust=True)
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["message"]) == ("stopped_by_hook", "the build is broken")
    assert len(driver.requests) == 1
    assert len(driver.fetch_results()) == 1
    (folder / OSTLER_SETTINGS).unlink()
    driver.expect_usable()


def test_a_hook_is_run_for_the_tools_that_its_matcher_names(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, {}, "Read|Edit")
    (folder / "a").write_text("a\n")
    run_calls(harness, bash("ls"), read(folder / "a"), folder=folder, trust=True)
    assert [given["tool_name"] for given in read_hook_inputs(folder)] == ["Read"]


def test_a_hooks_condition_is_a_permission_rule(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, {}, "Bash", **{"if": "Bash(git status:*)"})
    run_calls(harness, bash("ls"), bash("ls && git status"), folder=folder, trust=True)
    assert [given["tool_input"]["command"] for given in read_hook_inputs(folder)] == ["ls && git status"]


def test_a_hooks_condition_matches_what_a_rule_of_permission_would(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, {}, **{"if": "Edit(notes/**)"})
    (folder / "notes").mkdir()
    notes, other = str(folder / "notes/a"), str(folder / "a")
    calls = (write(notes, "a\n"), bash("tee notes/b <a"), bash("tee b <a"), write(other, "a\n"))
    run_calls(harness, *calls, folder=folder, trust=True, rules={"allow": ["Edit", "Write", "Bash"]})
    inputs = [given["tool_input"] for given in read_hook_inputs(folder)]
    assert [given.get("file_path") or given["command"] for given in inputs] == [notes, "tee notes/b <a"]


def test_a_hook_that_fails_is_a_warning_and_the_work_goes_on(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, "echo broken >&2; exit 1")
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert list_decisions(driver) == [("allow", "read_only")]
    assert list_hook_runs(driver)[0]["outcome"] == "failed"
    assert any("broken" in text for text in list_notices(driver))


def test_a_hook_that_hangs_is_killed_at_its_time_limit_and_the_turn_goes_on(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, "sleep 1000 & sleep 1000", timeout=1)
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert list_decisions(driver) == [("allow", "read_only")]
    assert list_hook_runs(driver)[0]["outcome"] == "timed_out"
    write_settings(folder, OSTLER_SETTINGS, {})
    driver.expect_usable()  # and nothing of it is left


def test_an_interrupt_ends_a_hook(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, "touch begun; sleep 1000")
    driver = open_session_with_calls(harness, bash("ls"), folder=folder, trust=True)
    turn_id = driver.start()
    wait_until((folder / "begun").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    write_settings(folder, OSTLER_SETTINGS, {})
    driver.expect_usable()


# In the place of a person.


def test_a_hook_answers_an_ask_and_the_person_who_is_slower_is_told(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "PermissionRequest", build_decision("PermissionRequest", decision={"behavior": "allow"})
    )
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, trust=True)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    settled = driver.wait("ask.resolved")["data"]["ask"]
    assert settled["answered_by"].startswith("hook: ")
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "deny"})
    assert error["data"]["code"] == "ask_resolved"
    assert error["data"]["ask"]["answered_by"] == settled["answered_by"]
    driver.wait_for_turn_end(turn_id)
    assert (folder / "it").exists()
    assert list_decisions(driver) == [("allow", "hook")]


def test_a_person_who_is_faster_than_the_hook_decides(harness: Harness) -> None:
    answer = build_hook_command(build_decision("PermissionRequest", decision={"behavior": "deny"}))
    folder = make_project_with_hook(harness, "PermissionRequest", f"until [ -e go ]; do sleep 0.01; done; {answer}")
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, trust=True)
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    assert (folder / "it").exists()
    assert list_decisions(driver) == [("allow", "person")]


def test_a_hooks_no_to_an_ask_is_told_in_its_words(harness: Harness) -> None:
    answer = build_decision("PermissionRequest", decision={"behavior": "deny", "message": "not on Fridays"})
    folder = make_project_with_hook(harness, "PermissionRequest", answer)
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, trust=True)
    assert driver.run_turn()["reason"] == "completed"
    assert "not on Fridays" in driver.fetch_result_texts()[0]
    assert list_decisions(driver) == [("deny", "hook")]


def test_a_hook_that_says_nothing_leaves_the_ask_to_the_person_and_notification_hears_of_it(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "Notification", "cat > told; echo >> told")
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, trust=True)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.wait("hook.ran")
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    (given,) = read_hook_inputs(folder)
    assert (given["notification_type"], given["message"]) == ("permission_prompt", ask["message"])


# Afterwards.


def test_a_hook_after_the_call_sees_its_output_and_adds_words(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "PostToolUse", build_decision("PostToolUse", additionalContext="format it, too")
    )
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    (given,) = read_hook_inputs(folder)
    assert given["tool_response"]["exit_code"] == 0
    assert "format it, too" in dump_request(driver, 1)


def test_a_no_after_the_call_is_told_to_the_model(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "PostToolUse", {"decision": "block", "reason": "the linter complains"})
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    assert "the linter complains" in dump_request(driver, 1)


def test_a_call_that_failed_has_a_hook_of_its_own(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, "PostToolUseFailure", build_decision("PostToolUseFailure", additionalContext="look at the log")
    )
    driver = run_calls(harness, bash("ls"), bash("false"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert [given["tool_input"]["command"] for given in read_hook_inputs(folder)] == ["false"]
    assert "look at the log" in dump_request(driver, 2)


def test_runs_are_stored_and_told_again(harness: Harness) -> None:
    folder = make_project_with_hook(
        harness, PRE, build_decision(PRE, permissionDecision="deny", permissionDecisionReason="no"), "Bash"
    )
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True)
    (run,) = list_hook_runs(driver)
    assert (run["event"], run["source"], run["kind"], run["exit_code"]) == (PRE, "project", "command", 0)
    assert run["file"] == str(folder / OSTLER_SETTINGS)
    assert run["call_id"] == driver.list_event_data("tool.completed")[0]["call"]["call_id"]
    with harness.daemon.follow(f"?session={driver.id}&after=0") as late:
        assert late.wait_for("hook.ran")["data"]["run"] == run


def test_hook_list_shows_where_each_stands_and_whether_it_acts(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, "true", "Bash", **{"if": "Bash(ls)", "timeout": 5})
    driver = harness.open_session(folder=folder)
    (found,) = harness.daemon.call("hook/list", session_id=driver.id)["hooks"]
    assert (found["event"], found["kind"], found["shown"], found["matcher"]) == (PRE, "command", "true", "Bash")
    assert (found["condition"], found["timeout_ms"], found["source"]) == ("Bash(ls)", 5000, "project")
    assert (found["file"], found["acts"]) == (str(folder / OSTLER_SETTINGS), False)
    trusting = harness.open_session(folder=folder, trust=True)
    assert harness.daemon.call("hook/list", session_id=trusting.id)["hooks"][0]["acts"] is True


def test_the_daemons_token_and_the_models_key_are_not_in_a_hooks_environment(harness: Harness) -> None:
    folder = make_project_with_hook(harness, PRE, "env > seen")
    run_calls(harness, bash("ls"), folder=folder, trust=True)
    seen = (folder / "seen").read_text()
    assert harness.daemon.token not in seen
    assert "ANTHROPIC_API_KEY" not in seen
    assert f"CLAUDE_PROJECT_DIR={folder}" in seen


def test_a_projects_deny_rule_needs_no_trust_beside_a_hook_that_does(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: {**build_rules(deny=["Bash(ls)"]), "hooks": {}}})
    driver = run_calls(harness, bash("ls"), folder=folder)
    assert get_last_decision(driver)["rule"] == "Bash(ls)"


def test_a_no_of_a_hook_that_ends_the_turn_is_told_as_the_hooks(harness: Harness) -> None:
    no = {"behavior": "deny", "message": "not today", "interrupt": True}
    folder = make_project_with_hook(harness, "PermissionRequest", build_decision("PermissionRequest", decision=no))
    driver = harness.open_session(message(bash("touch it"), bash("touch that")), folder=folder, trust=True)
    assert driver.run_turn()["reason"] == "interrupted"
    refused, waiting = driver.fetch_result_texts()
    assert "A hook said no to this call, in these words: not today" in refused
    assert "a hook said no to another call" in waiting


def test_a_hook_is_told_of_a_file_that_a_call_changed_and_of_one_that_a_command_changed(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "FileChanged", {}, matcher="a.txt|b.txt")
    (folder / "b.txt").write_text("old\n")
    blocks = [write(folder / "a.txt"), write(folder / "other"), read(folder / "b.txt"), bash("echo more >> b.txt")]
    rules = {"allow": ["Bash", "Edit"]}
    run_calls(harness, *blocks, folder=folder, trust=True, rules=rules)
    given = [(each["hook_event_name"], each["file_path"]) for each in read_hook_inputs(folder)]
    assert given == [("FileChanged", str(folder / "a.txt")), ("FileChanged", str(folder / "b.txt"))]
