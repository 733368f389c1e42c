"""The classifier runs beside the hooks of a call, wherever its opinion may count."""

from collections.abc import Callable

import pytest

from tests.server.engine.permissions.test_modes import classifying, judged, make
from tests.support.daemon import wait_until
from tests.support.driver import Stage
from tests.support.hooks import hooked
from tests.support.model_replies import bash
from tests.support.projects import decisions, talk_of

WAITING = "touch here; while [ ! -e go ]; do sleep 0.02; done"


@pytest.mark.parametrize("mode", ["auto", "default", "acceptEdits"])
def test_the_classifier_is_asked_while_the_hooks_run(own_stage: Callable[..., Stage], mode: str) -> None:
    stage = own_stage(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    shown = classifying(stage, lambda call: judged("allow"))
    folder = hooked(stage, "PreToolUse", WAITING)
    talk = talk_of(stage, bash(make("good")), folder=folder, trust=True, mode=mode)
    turn_id = talk.start()
    wait_until((folder / "here").exists)
    wait_until(lambda: len(shown) == 1)
    (folder / "go").touch()
    talk.ended(turn_id)
    assert (len(shown), decisions(talk)) == (1, [("allow", "classifier")])


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
def test_the_classifier_is_not_asked_where_it_has_no_say(own_stage: Callable[..., Stage], mode: str) -> None:
    stage = own_stage(OSTLER_PERMISSIONS__BASH_CLASSIFIER="true")
    shown = classifying(stage, lambda call: judged("allow"))
    folder = hooked(stage, "PreToolUse", {})
    talk = talk_of(stage, bash(make("good")), folder=folder, trust=True, mode=mode)
    talk.turn()
    assert (shown, decisions(talk)) == ([], [("deny", "mode")])


def test_the_classifier_is_not_asked_about_what_is_settled_without_it(stage: Stage) -> None:
    shown = classifying(stage, lambda call: judged("deny"))
    folder = hooked(stage, "PreToolUse", {})
    command = make("good")
    given = {"allow": ["Bash(make:*)"]}
    talk = talk_of(stage, bash("ls"), bash(command), folder=folder, trust=True, mode="auto", rules=given)
    talk.turn()
    assert (shown, decisions(talk)) == ([], [("allow", "read_only"), ("allow", "rule")])
