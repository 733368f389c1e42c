"""Requests to the small model, for the classifier and for hooks, are paid for like the turn's own."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.server.classifier import small_model
from tests.server.engine.permissions.test_modes import classifying, make
from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import hooked
from tests.support.messages_api.behaviors import Reply, Usage
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import DONE, bash
from tests.support.projects import OURS, decisions, project

ONE = Usage(1, 1)
"""What each request of the turn's own takes."""
SMALL = Usage(1000, 10)
"""What each request to the small model takes."""
SMALL_MODEL = small_model("claude-sonnet-5", None)
JUDGE = "judge-of-prompts"

_numbers = itertools.count(1)


def judged(verdict: str) -> Callable[[str], Reply]:
    answer = json.dumps({"verdict": verdict, "reason": "because"})
    return lambda _: message(says(answer), usage=SMALL)


def turn_of(stage: Stage, folder: Path, **session: object) -> tuple[Talk, Json]:
    """A turn with one command and two requests of its own."""
    talk = stage.talk(
        message(bash(make("good")), usage=ONE),
        otherwise=message(says("Done."), usage=ONE),
        folder=folder,
        trust=True,
        on_ask="deny",
        **session,
    )
    return talk, talk.turn()


def asking(stage: Stage, usage: Usage) -> Json:
    """A hook that asks the small model, which agrees."""
    stage.api.script(JUDGE, otherwise=message(says('{"ok": true}'), usage=usage))
    return {"type": "prompt", "prompt": f"[{JUDGE}:{next(_numbers)}] Is this good?"}


def used(talk: Talk, turn: Json) -> tuple[int, int, list[str]]:
    """The tokens of the turn, those of the session, and whom each request was paid to."""
    session = talk.state()["usage"]["input_tokens"]
    # What budgets are held against is what is stored.
    assert talk.all("usage.updated")[-1]["session"]["input_tokens"] == session
    return turn["usage"]["input_tokens"], session, [data["model"] for data in talk.all("usage.updated")]


@pytest.mark.parametrize("verdict", ["allow", "deny", "ask"])
@pytest.mark.parametrize("beside_hooks", [False, True])
def test_the_classifier_is_asked_once_and_paid_by_turn_and_session(
    stage: Stage, verdict: str, beside_hooks: bool
) -> None:
    shown = classifying(stage, judged(verdict))
    folder = hooked(stage, "PreToolUse", {}) if beside_hooks else project(stage)
    talk, turn = turn_of(stage, folder, mode="auto")
    assert len(shown) == 1
    of_turn, of_session, models = used(talk, turn)
    assert (of_turn, of_session) == (1002, 1002)
    assert models == [talk.session["model"], SMALL_MODEL, talk.session["model"]]


def test_a_classifier_whose_opinion_a_hook_made_needless_is_paid_too(stage: Stage) -> None:
    shown = classifying(stage, judged("allow"))
    folder = hooked(stage, "PreToolUse", "echo no >&2; exit 2")
    talk, turn = turn_of(stage, folder, mode="auto")
    assert (len(shown), decisions(talk)) == (1, [("deny", "hook")])
    assert used(talk, turn)[:2] == (1002, 1002)


def test_a_hook_that_asks_the_small_model_is_paid_by_turn_and_session(stage: Stage) -> None:
    hook = asking(stage, SMALL)
    folder = project(stage, {OURS: {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}})
    talk, turn = turn_of(stage, folder)
    of_turn, of_session, models = used(talk, turn)
    assert (of_turn, of_session) == (1002, 1002)
    assert models == [talk.session["model"], SMALL_MODEL, talk.session["model"]]


def test_what_hooks_ask_the_small_model_counts_against_the_budget(stage: Stage) -> None:
    hook = asking(stage, Usage(1_000_000, 1))
    folder = project(stage, {OURS: {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}})
    talk = stage.talk(message(bash("ls"), usage=ONE), otherwise=DONE, folder=folder, trust=True)
    turn = talk.turn(max_budget_usd="0.5")
    assert (turn["reason"], len(talk.requests)) == ("budget", 1)


def test_a_small_model_without_a_price_ends_a_turn_with_a_budget(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_MODEL__SMALL="a-model-without-a-price")
    folder = project(stage, {OURS: {"hooks": {"PreToolUse": [{"hooks": [asking(stage, SMALL)]}]}}})
    talk = stage.talk(message(bash("ls"), usage=ONE), otherwise=DONE, folder=folder, trust=True)
    turn = talk.turn(max_budget_usd="1")
    assert (turn["reason"], turn["usage"]["cost_usd"], len(talk.requests)) == ("budget", None, 1)
    assert "a price is not known" in turn["error"]["message"]


def test_a_hook_that_asks_the_small_model_outside_a_turn_is_paid_by_the_session(stage: Stage) -> None:
    hook = asking(stage, SMALL)
    settings = {"hooks": {"ConfigChange": [{"hooks": [hook]}]}}
    folder = project(stage, {OURS: settings})
    talk, _ = turn_of(stage, folder)
    # It is looked at when the next turn begins.
    (folder / OURS).write_text(json.dumps({**settings, "permissions": {"deny": ["Bash(rm:*)"]}}))
    talk.turn("More.")
    asked = len(stage.api.of(hook["prompt"].partition("]")[0].removeprefix("[")))
    assert asked >= 1
    assert talk.state()["usage"]["input_tokens"] == 3 + 1000 * asked
    assert [data["turn"]["input_tokens"] for data in talk.all("usage.updated") if data["model"] == SMALL_MODEL][-1] == 0
