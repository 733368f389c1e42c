"""The classifier runs beside the hooks of a call, wherever its opinion may count."""

from collections.abc import Callable

import pytest

from tests.server.engine.permissions.test_modes import make_command, make_verdict_reply, script_classifier
from tests.support.daemon import wait_until
from tests.support.driver import Harness
from tests.support.hooks import make_project_with_hook
from tests.support.model_replies import bash
from tests.support.projects import list_decisions, open_session_with_calls

WAITING = "touch here; while [ ! -e go ]; do sleep 0.02; done"


@pytest.mark.parametrize("mode", ["auto", "default", "acceptEdits"])
def test_the_classifier_is_asked_while_the_hooks_run(own_harness: Callable[..., Harness], mode: str) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow"))
    folder = make_project_with_hook(harness, "PreToolUse", WAITING)
    driver = open_session_with_calls(harness, bash(make_command("good")), folder=folder, trust=True, mode=mode)
    turn_id = driver.start()
    wait_until((folder / "here").exists)
    wait_until(lambda: len(shown) == 1)
    (folder / "go").touch()
    driver.wait_for_turn_end(turn_id)
    assert (len(shown), list_decisions(driver)) == (1, [("allow", "classifier")])


def test_the_classifier_is_not_asked_where_it_has_no_say(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow"))
    folder = make_project_with_hook(harness, "PreToolUse", {})
    driver = open_session_with_calls(harness, bash(make_command("good")), folder=folder, trust=True, mode="plan")
    driver.run_turn()
    assert (shown, list_decisions(driver)) == ([], [("deny", "mode")])


def test_the_classifier_is_not_asked_about_what_is_settled_without_it(harness: Harness) -> None:
    shown = script_classifier(harness, lambda call: make_verdict_reply("deny"))
    folder = make_project_with_hook(harness, "PreToolUse", {})
    command = make_command("good")
    given = {"allow": ["Bash(make:*)"]}
    driver = open_session_with_calls(
        harness, bash("ls"), bash(command), folder=folder, trust=True, mode="auto", rules=given
    )
    driver.run_turn()
    assert (shown, list_decisions(driver)) == ([], [("allow", "read_only"), ("allow", "rule")])
