"""Requests to the small model, for the classifier and for hooks, are paid for like the turn's own."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.server.classifier import choose_small_model
from tests.server.engine.permissions.test_modes import make_command, script_classifier
from tests.support.daemon import wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.behaviors import Reply, Usage
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import DONE, bash
from tests.support.projects import OSTLER_SETTINGS, list_decisions, make_project

ONE = Usage(1, 1)
"""What each request of the turn's own takes."""
SMALL = Usage(1000, 10)
"""What each request to the small model takes."""
SMALL_MODEL = choose_small_model("claude-sonnet-5", None)
JUDGE = "judge-of-prompts"

_numbers = itertools.count(1)


def answer_with_verdict(verdict: str) -> Callable[[str], Reply]:
    answer = json.dumps({"verdict": verdict, "reason": "because"})
    return lambda _: message(says(answer), usage=SMALL)


def run_turn(harness: Harness, folder: Path, **session: object) -> tuple[SessionDriver, Json]:
    """A turn with one command and two requests of its own."""
    driver = harness.open_session(
        message(bash(make_command("good")), usage=ONE),
        otherwise=message(says("Done."), usage=ONE),
        folder=folder,
        trust=True,
        on_ask="deny",
        **session,
    )
    return driver, driver.run_turn()


def make_prompt_hook(harness: Harness, usage: Usage) -> Json:
    """A hook that asks the small model, which agrees."""
    harness.api.script(JUDGE, otherwise=message(says('{"ok": true}'), usage=usage))
    return {"type": "prompt", "prompt": f"[{JUDGE}:{next(_numbers)}] Is this good?"}


def read_usage(driver: SessionDriver, turn: Json) -> tuple[int, int, list[str]]:
    """The tokens of the turn, those of the session, and whom each request was paid to."""
    session = driver.fetch_state()["usage"]["input_tokens"]
    # What budgets are held against is what is stored.
    assert driver.list_event_data("usage.updated")[-1]["session"]["input_tokens"] == session
    return turn["usage"]["input_tokens"], session, [data["model"] for data in driver.list_event_data("usage.updated")]


@pytest.mark.parametrize("verdict", ["allow", "deny", "ask"])
@pytest.mark.parametrize("beside_hooks", [False, True])
def test_the_classifier_is_asked_once_and_paid_by_turn_and_session(
    harness: Harness, verdict: str, beside_hooks: bool
) -> None:
    shown = script_classifier(harness, answer_with_verdict(verdict))
    folder = make_project_with_hook(harness, "PreToolUse", {}) if beside_hooks else make_project(harness)
    driver, turn = run_turn(harness, folder, mode="auto")
    assert len(shown) == 1
    of_turn, of_session, models = read_usage(driver, turn)
    assert (of_turn, of_session) == (1002, 1002)
    assert models == [driver.session["model"], SMALL_MODEL, driver.session["model"]]


def test_a_classifier_whose_opinion_a_hook_made_needless_is_paid_too(harness: Harness) -> None:
    shown = script_classifier(harness, answer_with_verdict("allow"))
    folder = make_project_with_hook(harness, "PreToolUse", "echo no >&2; exit 2")
    driver, turn = run_turn(harness, folder, mode="auto")
    assert (len(shown), list_decisions(driver)) == (1, [("deny", "hook")])
    assert read_usage(driver, turn)[:2] == (1002, 1002)


def test_a_hook_that_asks_the_small_model_is_paid_by_turn_and_session(harness: Harness) -> None:
    hook = make_prompt_hook(harness, SMALL)
    folder = make_project(harness, {OSTLER_SETTINGS: {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}})
    driver, turn = run_turn(harness, folder)
    of_turn, of_session, models = read_usage(driver, turn)
    assert (of_turn, of_session) == (1002, 1002)
    assert models == [driver.session["model"], SMALL_MODEL, driver.session["model"]]


def test_what_hooks_ask_the_small_model_counts_against_the_budget(harness: Harness) -> None:
    hook = make_prompt_hook(harness, Usage(1_000_000, 1))
    folder = make_project(harness, {OSTLER_SETTINGS: {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}})
    driver = harness.open_session(message(bash("ls"), usage=ONE), otherwise=DONE, folder=folder, trust=True)
    turn = driver.run_turn(max_budget_usd="0.5")
    assert (turn["reason"], len(driver.requests)) == ("budget", 1)


def test_a_small_model_without_a_price_ends_a_turn_with_a_budget(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__SMALL="a-model-without-a-price")
    folder = make_project(
        harness, {OSTLER_SETTINGS: {"hooks": {"PreToolUse": [{"hooks": [make_prompt_hook(harness, SMALL)]}]}}}
    )
    driver = harness.open_session(message(bash("ls"), usage=ONE), otherwise=DONE, folder=folder, trust=True)
    turn = driver.run_turn(max_budget_usd="1")
    assert (turn["reason"], turn["usage"]["cost_usd"], len(driver.requests)) == ("budget", None, 1)
    assert "a price is not known" in turn["error"]["message"]


def test_a_hook_that_asks_the_small_model_outside_a_turn_is_paid_by_the_session(harness: Harness) -> None:
    hook = make_prompt_hook(harness, SMALL)
    settings = {"hooks": {"ConfigChange": [{"hooks": [hook]}]}}
    folder = make_project(harness, {OSTLER_SETTINGS: settings})
    driver, _ = run_turn(harness, folder)
    # It is looked at when the next turn begins.
    (folder / OSTLER_SETTINGS).write_text(json.dumps({**settings, "permissions": {"deny": ["Bash(rm:*)"]}}))
    driver.run_turn("More.")
    script = hook["prompt"].partition("]")[0].removeprefix("[")

    def count_asked() -> int:
        return len(harness.api.list_requests(script))

    assert count_asked() >= 1
    # A hook may have been asked after the turn: what it took is recorded when it has answered.
    wait_until(lambda: driver.fetch_state()["usage"]["input_tokens"] == 3 + 1000 * count_asked())
    assert [
        data["turn"]["input_tokens"] for data in driver.list_event_data("usage.updated") if data["model"] == SMALL_MODEL
    ][-1] == 0
