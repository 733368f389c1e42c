"""Answers of several hooks are merged into one outcome."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.hooks import Hook, Outcome, ReplacedOutput
from ostler.server.hooks.answers import Answer, HookOutput
from ostler.server.hooks.merge import build_answered_hook, merge

GIVEN = {"command": "ls", "timeout": 5}
STRICT = {None: 0, "allow": 1, "ask": 2, "deny": 3}


def merge_answers(*answers: Answer, source: Any = "user") -> Outcome:
    hooks = [Hook("PreToolUse", "command", source, f"h{number}") for number in range(len(answers))]
    several = [
        build_answered_hook(hook, HookOutput(""), answer, 1) for hook, answer in zip(hooks, answers, strict=True)
    ]
    return merge(GIVEN, several)


@pytest.mark.parametrize(
    ("decisions", "wins", "by"),
    [
        (["allow", "deny", "ask"], "deny", "user hook h1"),
        (["allow", "ask", "allow"], "ask", "user hook h1"),
        ([None, "allow", "allow"], "allow", "user hook h1"),
        (["deny", "deny"], "deny", "user hook h0"),
        ([None, None], None, ""),
    ],
)
def test_the_strictest_decision_wins(decisions: list[Any], wins: str, by: str) -> None:
    outcome = merge_answers(*(Answer(decision=each, reason=str(each)) for each in decisions))
    assert (outcome.decision, outcome.by, outcome.reason) == (wins, by, wins or "")


def test_changes_of_different_parameters_are_all_made() -> None:
    outcome = merge_answers(
        Answer(changed_input={**GIVEN, "command": "ls -l"}),
        Answer(changed_input={"command": "ls", "description": "look"}),
    )
    assert outcome.changed_input == {"command": "ls -l", "description": "look"}
    assert outcome.decision is None


def test_where_hooks_change_the_same_in_different_ways_the_last_wins_and_a_person_is_asked() -> None:
    first, last = (Answer(decision="allow", changed_input={**GIVEN, "command": each}) for each in ("ls -l", "ls -a"))
    outcome = merge_answers(first, last)
    assert outcome.changed_input == {**GIVEN, "command": "ls -a"}
    assert (outcome.decision, outcome.reason) == ("ask", "Hooks change command in different ways.")
    assert merge_answers(first, last, Answer(decision="deny")).decision == "deny"
    assert merge_answers(first, first).decision == "allow"


def test_a_yes_is_not_about_what_another_hook_made_of_the_input() -> None:
    changed = Answer(changed_input={**GIVEN, "command": "rm -rf ."})
    assert merge_answers(Answer(decision="allow"), changed).decision is None
    assert merge_answers(changed, Answer(decision="allow")).decision is None
    assert merge_answers(Answer(decision="allow", changed_input={**GIVEN, "command": "rm -rf ."})).decision == "allow"
    assert merge_answers(Answer(decision="deny"), changed).decision == "deny"


def test_an_input_that_is_given_back_as_it_was_is_no_change() -> None:
    outcome = merge_answers(Answer(decision="allow", changed_input=dict(GIVEN)))
    assert (outcome.decision, outcome.changed_input) == ("allow", None)


def test_words_of_all_hooks_are_kept_in_order() -> None:
    outcome = merge_answers(
        Answer(context=("a",), message="m", block="no"),
        Answer(context=("b", "c"), stop="s", replaced_output=ReplacedOutput(1)),
        Answer(block="nor I", stop="t", failure="oh", replaced_output=ReplacedOutput(2)),
    )
    assert outcome.context == ("a", "b", "c")
    assert (outcome.block, outcome.stop, outcome.messages) == ("no\nnor I", "s", ("m",))
    assert outcome.replaced_output == ReplacedOutput(2)
    assert outcome.warnings == ("The user hook h2 () failed: oh.",)
    assert [run.outcome for run in outcome.runs] == ["blocked", "stopped", "failed"]


def test_only_a_denial_interrupts() -> None:
    assert merge_answers(Answer(decision="deny", interrupt=True), Answer()).interrupt
    assert not merge_answers(Answer(decision="deny"), Answer(decision="allow", interrupt=True)).interrupt


def test_a_policys_answer_that_is_not_understood_denies_and_changes_nothing() -> None:
    outcome = merge_answers(Answer(decision="ask", failure="?", changed_input={"command": "x"}), source="policy")
    assert (outcome.decision, outcome.changed_input) == ("deny", None)


def test_what_a_hook_wants_hidden_is_not_in_its_run() -> None:
    hook = Hook("Stop", "command", "user", "h")
    shown = merge({}, [build_answered_hook(hook, HookOutput("out"), Answer(), 7)]).runs[0]
    hidden = merge({}, [build_answered_hook(hook, HookOutput("out"), Answer(hides_output=True), 7)]).runs[0]
    assert (shown.stdout, hidden.stdout) == ("out", "")
    assert shown.as_json() == {
        "event": "Stop",
        "hook": "h",
        "source": "user",
        "file": None,
        "kind": "command",
        "shown": "",
        "outcome": "passed",
        "duration_ms": 7,
        "exit_code": 0,
        "stdout": "out",
        "stderr": "",
        "error": None,
    }


INPUTS = st.none() | st.dictionaries(st.sampled_from(["command", "timeout", "x"]), st.integers(0, 2))
ANSWERS = st.builds(Answer, decision=st.sampled_from([None, "allow", "ask", "deny"]), changed_input=INPUTS)


@given(st.lists(ANSWERS, max_size=5))
def test_no_merge_is_laxer_than_its_strictest_no(answers: list[Answer]) -> None:
    outcome = merge_answers(*answers)
    strictest = max((STRICT[answer.decision] for answer in answers), default=0)
    if strictest >= STRICT["ask"]:
        assert STRICT[outcome.decision] == strictest
    if outcome.decision == "allow":
        final = GIVEN if outcome.changed_input is None else outcome.changed_input
        asked = [GIVEN if each.changed_input is None else each.changed_input for each in answers if each.decision]
        assert final in asked
