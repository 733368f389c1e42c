"""With `bash_classifier` the ask opens at once, and the classifier settles it like anybody else: the first wins."""

from collections.abc import Callable

import pytest

from tests.server.engine.permissions.test_modes import (
    make_command,
    make_verdict_reply,
    script_classifier,
    start_auto_session,
)
from tests.support.daemon import wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import declare_hook, make_project_with_hook
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import after, hold
from tests.support.projects import OSTLER_SETTINGS, get_last_decision, list_decisions, make_project


@pytest.fixture
def judged(own_harness: Callable[..., Harness]) -> Harness:
    return own_harness(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")


def think_until(harness: Harness, gate: Gate, verdict: str = "allow") -> list[str]:
    """The classifier thinks until the gate opens; returns the calls that it was shown."""
    return script_classifier(harness, lambda call: after(make_verdict_reply(verdict, "It is fine."), hold(gate)))


def fetch_ask(driver: SessionDriver, ask: Json) -> Json:
    found: Json = driver.daemon.call("ask/get", ask_id=ask["id"])
    return found


def test_the_ask_opens_while_the_classifier_thinks_and_its_yes_settles_it(judged: Harness) -> None:
    gate = Gate()
    think_until(judged, gate)
    driver = start_auto_session(judged, make_command("good"), mode="default")
    ask = driver.wait_for_ask()
    gate.wait_until_reached()
    assert fetch_ask(driver, ask)["status"] == "open"
    gate.open()
    driver.wait_for_turn_end()
    settled = driver.list_event_data("ask.resolved")[0]["ask"]
    assert (settled["status"], settled["answer"]) == ("resolved", {"choice": "allow"})
    assert settled["answered_by"].startswith("classifier: ")
    assert list_decisions(driver) == [("allow", "classifier")]
    decision = get_last_decision(driver)
    assert (decision["reason"], f"classifier: {decision['source']}") == ("It is fine.", settled["answered_by"])
    late = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "deny"})
    assert late["data"]["code"] == "ask_resolved"


def test_a_verdict_that_is_there_already_opens_no_ask(judged: Harness) -> None:
    shown = script_classifier(judged, lambda call: make_verdict_reply("allow"))
    command = make_command("good")
    driver = start_auto_session(judged, command, command, mode="default")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "classifier")] * 2
    assert (len(shown), len(driver.list_event_data("ask.opened"))) == (1, 1)


def test_a_person_who_is_faster_wins_and_the_classifier_is_let_go(judged: Harness) -> None:
    gate = Gate()
    think_until(judged, gate)
    driver = start_auto_session(judged, make_command("good"), mode="acceptEdits")
    ask = driver.wait_for_ask()
    gate.wait_until_reached()
    driver.answer(ask, "deny", message="Not now.")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("deny", "person")]
    gate.open()


@pytest.mark.parametrize("verdict", ["deny", "ask", "perhaps"])
def test_a_classifier_that_does_not_say_yes_leaves_the_ask_to_people(judged: Harness, verdict: str) -> None:
    gate = Gate()
    think_until(judged, gate, verdict)
    folder = make_project_with_hook(judged, "Notification", "touch told")
    driver = start_auto_session(judged, make_command("bad"), mode="default", folder=folder, trust=True)
    ask = driver.wait_for_ask()
    gate.wait_until_reached()
    gate.open()
    wait_until((folder / "told").exists)  # at once, not after two seconds: nobody else will settle it
    assert fetch_ask(driver, ask)["status"] == "open"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "person")]


def test_notification_hooks_wait_for_a_classifier_that_is_quick_and_not_for_a_slow_one(judged: Harness) -> None:
    gates = {"quick": Gate(), "slow": Gate()}
    script_classifier(judged, lambda call: after(make_verdict_reply("allow"), hold(gates[call.split()[-1]])))
    folder = make_project(judged, {OSTLER_SETTINGS: declare_hook("Notification", "touch told")})
    commands = make_command("quick"), make_command("slow")
    driver = start_auto_session(judged, *commands, mode="default", folder=folder, trust=True)
    driver.wait_for_ask()
    gates["quick"].open()
    ask = driver.wait_for_ask()
    assert not (folder / "told").exists()
    wait_until((folder / "told").exists)
    assert fetch_ask(driver, ask)["status"] == "open"
    gates["slow"].open()
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "classifier")] * 2


def test_after_a_crash_the_classifier_thinks_again_and_may_settle_the_open_ask(judged: Harness) -> None:
    gate, later = Gate(), Gate()
    think_until(judged, gate)
    driver = start_auto_session(judged, make_command("good"), mode="default")
    ask = driver.wait_for_ask()
    driver.wait("message.completed")
    gate.wait_until_reached()
    think_until(judged, later)
    judged.restart()
    gate.open()
    later.wait_until_reached()
    assert fetch_ask(driver, ask)["status"] == "open"
    later.open()
    driver.wait_for_turn_end()
    assert fetch_ask(driver, ask)["answered_by"].startswith("classifier: ")
    decision = driver.list_event_data("tool.completed")[-1]["call"]["decision"]
    assert (decision["by"], decision["reason"]) == ("classifier", "It is fine.")


@pytest.mark.parametrize("by", ["rule", "hook", "safety"])
def test_what_a_rule_a_hook_or_safety_asks_about_is_never_the_classifiers_also_after_a_crash(
    judged: Harness, by: str
) -> None:
    shown = script_classifier(judged, lambda call: make_verdict_reply("allow"))
    answer: Json = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    folder = make_project_with_hook(judged, "PreToolUse", answer) if by == "hook" else make_project(judged)
    rules = {"ask": ["Bash(make:*)"]} if by == "rule" else {}
    command = "touch .envrc" if by == "safety" else make_command("good")
    driver = start_auto_session(judged, command, mode="default", folder=folder, trust=True, rules=rules)
    ask = driver.wait_for_ask()
    driver.wait("message.completed")
    before = len(shown)
    judged.restart()
    assert fetch_ask(driver, ask)["status"] == "open"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert [data["call"]["decision"]["by"] for data in driver.list_event_data("tool.completed")] == ["person"]
    assert len(shown) == before


def test_a_rule_that_is_added_while_the_classifier_thinks_keeps_the_ask_for_people(judged: Harness) -> None:
    gate = Gate()
    think_until(judged, gate)
    driver = start_auto_session(judged, make_command("good"), mode="default")
    ask = driver.wait_for_ask()
    gate.wait_until_reached()
    judged.daemon.call("rule/add", session_id=driver.id, behavior="ask", rule="Bash(make:*)", scope="session")
    gate.open()
    judged.api.wait_for_requests(2)
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert list_decisions(driver) == [("allow", "person")]


@pytest.mark.parametrize(
    "session", [{"mode": "dontAsk"}, {"mode": "default", "on_ask": "deny"}], ids=["dontAsk", "on_ask"]
)
def test_where_nobody_can_be_asked_the_classifier_is_waited_for(judged: Harness, session: Json) -> None:
    script_classifier(judged, lambda call: make_verdict_reply("allow" if "good" in call else "ask"))
    driver = start_auto_session(judged, make_command("good"), make_command("bad"), **session)
    driver.wait_for_turn_end()
    assert [behavior for behavior, _ in list_decisions(driver)] == ["allow", "deny"]
    assert list_decisions(driver)[0] == ("allow", "classifier")
    assert driver.list_event_data("ask.opened") == []
