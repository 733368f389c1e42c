"""Trust: nothing that a folder brings acts before a person trusted it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash import CrashSession
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import declare_hook
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE, bash, read, write
from tests.support.projects import (
    CLAUDE_LOCAL_SETTINGS,
    CLAUDE_SETTINGS,
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    list_decisions,
    list_notices,
    make_project,
    open_session_with_calls,
    run_calls,
    write_settings,
)

ALLOW_SETTINGS = build_rules(allow=["Bash(touch it)"])
SESSION_START_HOOK_SETTINGS = declare_hook("SessionStart", "touch acted")
PROMPT_HOOK_SETTINGS = declare_hook("UserPromptSubmit", "touch acted")


def open_trust_ask(harness: Harness, settings: Json, name: str = OSTLER_SETTINGS) -> tuple[SessionDriver, str, Json]:
    """A session in a folder that brings this, its turn, and the question."""
    driver = open_session_with_calls(harness, bash("touch it"), folder=make_project(harness, {name: settings}))
    turn_id = driver.start()
    return driver, turn_id, driver.wait_for_ask()


@pytest.mark.parametrize("name", [OSTLER_SETTINGS, OSTLER_LOCAL_SETTINGS, CLAUDE_SETTINGS, CLAUDE_LOCAL_SETTINGS])
@pytest.mark.parametrize(
    "settings", [ALLOW_SETTINGS, SESSION_START_HOOK_SETTINGS, PROMPT_HOOK_SETTINGS], ids=["rule", "start", "submit"]
)
def test_what_would_act_asks_at_the_first_turn_and_does_nothing_before(
    harness: Harness, settings: Json, name: str
) -> None:
    driver, turn_id, ask = open_trust_ask(harness, settings, name)
    assert (ask["kind"], ask["choices"], ask["folder"]) == ("trust", ["trust", "restrict"], str(driver.folder))
    assert len(ask["what"]) == 1
    assert "touch" in ask["what"][0]["text"]
    assert driver.fetch_state()["status"] == "waiting"
    assert not (driver.folder / "acted").exists()
    assert driver.requests == []
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert not (driver.folder / "acted").exists()
    assert not (driver.folder / "it").exists()
    assert driver.requests == []


def test_trust_makes_it_act_in_this_turn(harness: Harness) -> None:
    driver, turn_id, ask = open_trust_ask(harness, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    driver.answer(ask, "trust")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert list_decisions(driver) == [("allow", "rule")]
    assert (driver.folder / "acted").exists()


def test_restrict_goes_on_without_it_and_is_not_asked_again(harness: Harness) -> None:
    driver, turn_id, ask = open_trust_ask(harness, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    driver.answer(ask, "restrict")
    permission = driver.wait_for_ask()
    assert permission["kind"] == "permission"
    driver.answer(permission, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert not (driver.folder / "acted").exists()
    driver.run_turn()
    assert driver.list_event_types("ask.opened") == ["ask.opened"] * 2


def test_an_answer_to_a_question_of_trust_is_one_of_its_choices(harness: Harness) -> None:
    driver, turn_id, ask = open_trust_ask(harness, ALLOW_SETTINGS)
    for choice in ("allow", "allow_always", "deny"):
        assert driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": choice})["code"] == -32602
    assert driver.fetch_state()["asks"] == [ask]
    driver.answer(ask, "restrict")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)


def test_a_file_that_changed_is_asked_about_again(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, trust=True)
    driver.run_turn()
    assert driver.list_event_types("ask.opened") == []
    write_settings(folder, OSTLER_SETTINGS, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], len(ask["what"])) == ("trust", 2)
    driver.answer(ask, "restrict")
    driver.wait_for_turn_end(turn_id)
    assert not (folder / "acted").exists()


def test_a_change_that_acts_no_differently_is_not_asked_about(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    driver = open_session_with_calls(harness, folder=folder, trust=True)
    driver.run_turn()
    write_settings(folder, OSTLER_SETTINGS, {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(touch it)"]}})
    driver.run_turn()
    assert driver.list_event_types("ask.opened") == []


def test_trust_at_creation_asks_nothing(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    driver = run_calls(harness, bash("touch it"), folder=folder, trust=True, on_ask="ask")
    assert driver.session["trusted"] is True
    assert (list_decisions(driver), driver.list_event_types("ask.opened")) == ([("allow", "rule")], [])


def test_trust_holds_for_the_next_session_of_the_folder_and_for_no_other_folder(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    run_calls(harness, folder=folder, trust=True)
    assert list_decisions(run_calls(harness, bash("touch it"), folder=folder)) == [("allow", "rule")]
    other = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    assert list_decisions(run_calls(harness, bash("touch it"), folder=other)) == [("deny", "on_ask")]


@pytest.mark.parametrize("session", [{"on_ask": "deny"}, {"mode": "dontAsk"}], ids=str)
def test_where_nobody_can_be_asked_it_stays_without_effect_and_a_notice_says_so(harness: Harness, session: Any) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS}})
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder, **session)
    driver.run_turn()
    assert list_decisions(driver)[0][0] == "deny"
    assert not (folder / "acted").exists()
    assert any("nobody can be asked to trust" in text for text in list_notices(driver))


def test_deny_and_ask_rules_of_a_folder_that_nobody_trusts_count(harness: Harness) -> None:
    settings = build_rules(allow=["Bash(touch it)"], deny=["Bash(make)"], ask=["Bash(ls)"])
    driver = harness.open_session(folder=make_project(harness, {OSTLER_SETTINGS: settings}))
    found = [explain_command(driver, command) for command in ("touch it", "make", "ls")]
    assert [(each["behavior"], each["by"]) for each in found] == [
        ("ask", "default"),
        ("deny", "rule"),
        ("ask", "rule"),
    ]


def test_a_folder_that_only_forbids_asks_for_no_trust(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Bash(make)"], ask=["Bash(ls)"])})
    driver = open_session_with_calls(harness, folder=folder)
    driver.run_turn()
    assert driver.list_event_types("ask.opened") == []


def test_a_projects_mode_environment_and_base_url_never_count(bypassing_harness: Harness) -> None:
    settings = {
        "permissions": {"defaultMode": "bypassPermissions", "additionalDirectories": ["/"]},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "PLANTED": "yes"},
        "apiKeyHelper": "touch acted",
    }
    folder = make_project(bypassing_harness, {CLAUDE_SETTINGS: settings})
    driver = run_calls(
        bypassing_harness, bash("echo x$PLANTED"), folder=folder, trust=True, rules={"allow": ["Bash(echo:*)", "Bash"]}
    )
    assert driver.session["mode"] == "default"
    assert "xyes" not in driver.fetch_result_texts()[0]
    assert not (folder / "acted").exists()
    assert explain_command(driver, "cat /etc/hostname")["by"] == "rule"


def test_two_sessions_of_a_folder_ask_each_and_one_answer_is_enough_for_the_next_turn(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    first, second = (open_session_with_calls(harness, bash("touch it"), folder=folder) for _ in range(2))
    turns = [first.start(), second.start()]
    asks = [first.wait_for_ask(), second.wait_for_ask()]
    assert asks[0]["id"] != asks[1]["id"]
    first.answer(asks[0], "trust")
    first.wait_for_turn_end(turns[0])
    second.answer(asks[1], "trust")
    second.wait_for_turn_end(turns[1])
    assert list_decisions(first) == list_decisions(second) == [("allow", "rule")]


# What a person remembers in a folder that nobody trusts.


def open_restricted_ask(harness: Harness, settings: Json) -> tuple[SessionDriver, str, Json]:
    """A session in a folder that brings this, which the person did not trust, and the question about a call."""
    driver, turn_id, ask = open_trust_ask(harness, settings)
    driver.answer(ask, "restrict")
    return driver, turn_id, driver.wait_for_ask()


@pytest.mark.parametrize("scope", ["local", "project"])
def test_an_answer_is_not_remembered_where_it_would_not_count(harness: Harness, scope: str) -> None:
    driver, turn_id, ask = open_restricted_ask(harness, PROMPT_HOOK_SETTINGS)
    assert [each["scope"] for each in ask["suggestions"]] == ["session"]
    answer = {"choice": "allow_always", "rule": "Bash(touch it)", "scope": scope}
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer=answer)
    assert (error["data"]["code"], error["data"]["folder"]) == ("conflict", str(driver.folder))
    assert "not trusted" in error["message"]
    assert driver.fetch_state()["asks"] == [ask]
    assert not (driver.folder / OSTLER_LOCAL_SETTINGS).exists()
    driver.answer(ask, "allow_always", scope="session")
    driver.wait_for_turn_end(turn_id)
    driver.run_turn()
    assert (
        driver.list_event_types("ask.opened") == ["ask.opened"] * 2
    )  # nothing of the person's own makes the folder ask again
    assert not (driver.folder / "acted").exists()


def test_what_forbids_is_remembered_in_a_folder_that_nobody_trusts(harness: Harness) -> None:
    driver, turn_id, ask = open_restricted_ask(harness, PROMPT_HOOK_SETTINGS)
    driver.answer(ask, "deny_always", rule="Bash(touch it)", scope="local", message="never")
    driver.wait_for_turn_end(turn_id)
    assert explain_command(driver, "touch it")["behavior"] == "deny"
    assert driver.fetch_state()["trusted"] is False


def test_a_rule_is_not_added_where_it_would_not_count(harness: Harness) -> None:
    driver = harness.open_session(folder=make_project(harness, {OSTLER_SETTINGS: PROMPT_HOOK_SETTINGS}))
    rule = {"session_id": driver.id, "behavior": "allow", "rule": "Bash(touch it)", "scope": "local"}
    assert harness.daemon.expect_error("rule/add", **rule)["data"]["code"] == "conflict"
    harness.daemon.call("trust/grant", folder=str(driver.folder))
    harness.daemon.call("rule/add", **rule)
    assert explain_command(driver, "touch it")["behavior"] == "allow"


def test_a_remembered_answer_trusts_nothing_that_came_meanwhile(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("touch it"), folder=make_project(harness))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert [each["scope"] for each in ask["suggestions"]] == ["session", "local"]
    write_settings(driver.folder, OSTLER_SETTINGS, PROMPT_HOOK_SETTINGS)
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "allow_always", "scope": "local"})
    assert error["data"]["code"] == "conflict"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert list_trusts(harness, driver.folder) == []
    second = driver.start()
    assert driver.wait_for_ask()["kind"] == "trust"
    harness.daemon.call("turn/interrupt", turn_id=second)
    driver.wait_for_turn_end(second)
    assert not (driver.folder / "acted").exists()


# A crash.


def test_a_question_of_trust_survives_a_crash_and_goes_on_when_it_is_answered(scene: CrashSession) -> None:
    write_settings(scene.folder, OSTLER_SETTINGS, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    scene.script(message(bash("touch it")))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    (before,) = scene.list_asks()
    scene.crash()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    assert scene.list_asks() == [before]
    assert not (scene.folder / "acted").exists()
    scene.answer(before, "trust")
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert (scene.folder / "it").exists()
    assert scene.list_asks(None) == [scene.daemon.call("ask/get", ask_id=before["id"])]
    scene.expect_recovered()


def test_a_hook_hears_of_a_prompt_that_waited_for_trust_through_a_crash(scene: CrashSession) -> None:
    write_settings(scene.folder, OSTLER_SETTINGS, declare_hook("UserPromptSubmit", "echo no >&2; exit 2"))
    scene.script()
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for_turn_rest(turn_id)
    (ask,) = scene.list_asks()
    scene.crash()
    scene.answer(ask, "trust")
    assert scene.wait_for_turn_end(turn_id)["reason"] == "stopped_by_hook"
    assert scene.api.list_requests("go") == []


def test_restrict_after_a_crash_goes_on_without_it(scene: CrashSession) -> None:
    write_settings(scene.folder, OSTLER_SETTINGS, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    scene.script(message(bash("touch it")))
    scene.create()
    turn_id = scene.start_turn()
    scene.wait_for_turn_rest(turn_id)
    (ask,) = scene.list_asks()
    scene.crash()
    scene.answer(ask, "restrict")
    scene.wait_for("ask.opened", lambda data: data["ask"]["kind"] == "permission")
    (permission,) = scene.list_asks()
    scene.answer(permission, "deny", message="no")
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert not (scene.folder / "acted").exists()


# The methods.


def list_trusts(harness: Harness, folder: Path) -> list[Json]:
    return [each for each in harness.daemon.call("trust/list", limit=500)["trusts"] if each["folder"] == str(folder)]


def test_trust_can_be_listed_granted_and_revoked(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    assert list_trusts(harness, folder) == []
    granted = harness.daemon.call("trust/grant", folder=str(folder))
    assert (granted["current"], granted["what"]) == (True, ["allows Bash(touch it)"])
    assert list_trusts(harness, folder) == [granted]
    driver = harness.open_session(folder=folder)
    assert explain_command(driver, "touch it")["behavior"] == "allow"
    harness.daemon.call("trust/revoke", folder=str(folder))
    assert list_trusts(harness, folder) == []
    assert explain_command(driver, "touch it")["behavior"] == "ask"
    assert harness.daemon.expect_error("trust/revoke", folder=str(folder))["code"] == -32602


def test_the_list_says_where_trust_is_out_of_date(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    harness.daemon.call("trust/grant", folder=str(folder))
    write_settings(folder, OSTLER_SETTINGS, SESSION_START_HOOK_SETTINGS)
    (found,) = list_trusts(harness, folder)
    assert (found["current"], found["what"]) == (False, ["hook SessionStart: touch acted"])


@pytest.mark.parametrize("folder", ["relative", "/nowhere/at/all"])
def test_only_a_folder_can_be_trusted(harness: Harness, folder: str) -> None:
    assert harness.daemon.expect_error("trust/grant", folder=folder)["data"]["code"] == "bad_folder"


def test_a_link_to_a_folder_is_trusted_as_what_it_leads_to(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    link = harness.folder / "link"
    link.symlink_to(folder)
    harness.daemon.call("trust/grant", folder=str(link))
    assert list_decisions(run_calls(harness, bash("touch it"), folder=folder)) == [("allow", "rule")]


def test_a_hook_that_appears_in_the_middle_of_a_turn_does_not_act(harness: Harness) -> None:
    driver = harness.open_session(message(bash("touch it")), DONE, folder=make_project(harness))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    write_settings(driver.folder, OSTLER_SETTINGS, declare_hook("PostToolUse", "touch acted"))
    assert explain_command(driver, "ls")["behavior"] == "allow"  # the file has been looked at
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert not (driver.folder / "acted").exists()


def test_a_yes_is_about_what_the_person_was_shown(harness: Harness) -> None:
    driver, turn_id, ask = open_trust_ask(harness, ALLOW_SETTINGS)
    write_settings(driver.folder, OSTLER_SETTINGS, {**ALLOW_SETTINGS, **PROMPT_HOOK_SETTINGS})
    assert len(harness.daemon.call("hook/list", session_id=driver.id)["hooks"]) == 1  # the change has been seen
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "trust"})
    assert error["data"]["code"] == "conflict"
    driver.answer(ask, "restrict")
    driver.answer(driver.wait_for_ask(), "deny", message="no")
    driver.wait_for_turn_end(turn_id)
    assert not (driver.folder / "acted").exists()


def test_a_yes_is_about_the_script_that_was_there_when_it_was_asked(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: declare_hook("UserPromptSubmit", "sh ./h.sh")})
    (folder / "h.sh").write_text("touch shown\n")
    driver = open_session_with_calls(harness, folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    (folder / "h.sh").write_text("touch planted\n")
    harness.daemon.call("hook/list", session_id=driver.id)  # the change has been seen
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "trust"})
    assert error["data"]["code"] == "conflict"
    driver.answer(ask, "restrict")
    driver.wait_for_turn_end(turn_id)
    assert not (folder / "planted").exists()


def test_a_script_of_a_trusted_hook_is_guarded_and_trust_is_asked_again_when_it_changes(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: declare_hook("PreToolUse", "sh scripts/h.sh", "Bash")})
    script = folder / "scripts" / "h.sh"
    script.parent.mkdir()
    script.write_text("touch trusted\n")
    calls = (bash("true"), read(script), write(script, "touch planted\n"), bash("true"))
    driver = open_session_with_calls(harness, *calls, folder=folder, trust=True, mode="acceptEdits", on_ask="ask")
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], ask["call"]["tool"]) == ("permission", "Write")
    assert "runs it" in ask["reason"]
    assert (folder / "trusted").exists()
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert script.read_text() == "touch planted\n"
    assert not (folder / "planted").exists(), "it ran at the next call"
    turn_id = driver.start()
    again = driver.wait_for_ask()
    assert again["kind"] == "trust"
    driver.answer(again, "restrict")
    driver.wait_for_turn_end(turn_id)
    assert not (folder / "planted").exists()


def test_a_script_that_a_command_changed_unseen_does_not_run(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: declare_hook("PreToolUse", "./h.sh", "Bash")})
    (folder / "h.sh").write_text("#!/bin/sh\ntouch trusted\n")
    (folder / "h.sh").chmod(0o755)
    change = "python3 -c \"open('h' + '.sh', 'w').write('#!/bin/sh\\ntouch planted')\""
    driver = open_session_with_calls(
        harness, bash(change), bash("true"), folder=folder, trust=True, rules={"allow": ["Bash(python3:*)"]}
    )
    driver.run_turn()
    assert "planted" in (folder / "h.sh").read_text()
    assert (folder / "trusted").exists()
    assert not (folder / "planted").exists()
    assert any("another one than when the folder was trusted" in text for text in list_notices(driver))


def test_a_script_that_the_persons_own_hook_or_an_mcp_entry_names_is_guarded_over_the_wire(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    harness = own_harness(HOME=str(tmp_path / "person"))
    server = {"mcpServers": {"db": {"command": "sh", "args": ["-c", "exec scripts/server.sh"]}}}
    folder = make_project(harness, {".mcp.json": server})
    for name in ("own.sh", "server.sh", "other.sh"):
        write_settings(folder, f"scripts/{name}", "true\n")
    write_settings(tmp_path / "person", CLAUDE_SETTINGS, declare_hook("Stop", f"{folder}/scripts/own.sh"))
    driver = harness.open_session(folder=folder, mode="acceptEdits")
    found = {name: explain_command(driver, f"cp a scripts/{name}") for name in ("own.sh", "server.sh", "other.sh")}
    assert (found["own.sh"]["behavior"], found["own.sh"]["by"]) == ("ask", "safety")
    assert found["server.sh"]["behavior"] == found["other.sh"]["behavior"] == "allow"
    harness.daemon.call("trust/grant", folder=str(folder))
    assert explain_command(driver, "cp a scripts/server.sh")["by"] == "safety"
    assert explain_command(driver, "cp a scripts/other.sh")["behavior"] == "allow"
