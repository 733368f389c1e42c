"""What a hook prints, read as an answer."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.hooks import EVENTS, ReplacedOutput
from ostler.server.hooks.answers import Answer, HookFailure, HookOutput, read_answer
from tests.support.tables import try_each

SPECIFIC = "hookSpecificOutput"


def parse_output(event: str, found: Any) -> Answer:
    return read_answer(event, HookOutput(orjson.dumps(found).decode()))


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
def test_a_permission_decision_is_taken_with_its_reason(decision: str) -> None:
    found = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "so"}
    answer = parse_output("PreToolUse", {SPECIFIC: found})
    assert (answer.decision, answer.reason, answer.failure) == (decision, "so", None)


def test_the_old_form_is_read() -> None:
    assert parse_output("PreToolUse", {"decision": "approve", "reason": "fine"}) == Answer(
        decision="allow", reason="fine"
    )
    assert parse_output("PreToolUse", {"decision": "block", "reason": "no"}) == Answer(decision="deny", reason="no")
    assert parse_output("Stop", {"decision": "block", "reason": "go on"}) == Answer(block="go on")
    assert parse_output("UserPromptSubmit", {"decision": "block"}).block == "A hook said no, without a reason."
    assert parse_output("PostToolUse", {"decision": "block", "reason": "tests fail"}) == Answer(context=("tests fail",))
    assert parse_output("Stop", {"decision": "approve"}) == Answer()


@pytest.mark.parametrize(("old", "new", "wins"), [("approve", "deny", "deny"), ("block", "allow", "deny")])
def test_of_the_old_form_and_the_new_one_the_stricter_counts(old: str, new: str, wins: str) -> None:
    assert parse_output("PreToolUse", {"decision": old, SPECIFIC: {"permissionDecision": new}}).decision == wins


def test_a_changed_input_and_context_are_taken() -> None:
    found = {"updatedInput": {"command": "ls -l"}, "additionalContext": "mind the gap"}
    answer = parse_output("PreToolUse", {SPECIFIC: found})
    assert answer == Answer(changed_input={"command": "ls -l"}, context=("mind the gap",))


def test_a_permission_request_is_answered_for_the_person() -> None:
    allow = {"decision": {"behavior": "allow", "updatedInput": {"command": "ls"}, "updatedPermissions": [{}]}}
    assert parse_output("PermissionRequest", {SPECIFIC: allow}) == Answer(
        decision="allow", changed_input={"command": "ls"}
    )
    deny = {"decision": {"behavior": "deny", "message": "not now", "interrupt": True}}
    assert parse_output("PermissionRequest", {SPECIFIC: deny}) == Answer(
        decision="deny", reason="not now", interrupt=True
    )
    assert parse_output("PreToolUse", {SPECIFIC: allow}).decision is None


def test_stop_message_and_silence_are_taken() -> None:
    found = {"continue": False, "stopReason": "enough", "systemMessage": "stopped", "suppressOutput": True}
    assert parse_output("PostToolUse", found) == Answer(stop="enough", message="stopped", hides_output=True)
    assert parse_output("PostToolUse", {"continue": False}).stop == "A hook stopped the work."
    assert parse_output("PostToolUse", {"continue": 0}).stop is None


def test_an_mcp_tools_output_is_replaced_by_any_json() -> None:
    found = {SPECIFIC: {"hookEventName": "PostToolUse", "updatedMCPToolOutput": None}}
    assert parse_output("PostToolUse", found).replaced_output == ReplacedOutput(None)
    assert parse_output("PostToolUse", {SPECIFIC: {}}).replaced_output is None


@try_each(
    "found",
    [
        {SPECIFIC: {"permissionDecision": "Allow"}},
        {SPECIFIC: {"permissionDecision": ["allow"]}},
        {SPECIFIC: {"permissionDecision": True}},
        {SPECIFIC: {"hookEventName": "PermissionRequest", "permissionDecision": "allow"}},
        {SPECIFIC: "allow"},
        {"decision": "allow"},
        {"decision": {"behavior": "allow"}},
        {"decision": "approve", SPECIFIC: {"permissionDecision": "approve"}},
        {SPECIFIC: {"permissionDecision": "allow", "updatedInput": "rm -rf /"}},
    ],
)
def test_what_is_not_understood_is_never_allowed(found: Any) -> None:
    answer = parse_output("PreToolUse", found)
    assert answer.decision == "ask"
    assert answer.failure
    assert answer.changed_input is None


def test_unknown_fields_are_ignored() -> None:
    assert parse_output("Stop", {"new": 1, SPECIFIC: {"hookEventName": "Stop", "newer": 2}}) == Answer()


@pytest.mark.parametrize("text", ['{"a":', "{]", "{" * 100_000, '{"systemMessage": "\\ud800"}', '{"continue": NaN}'])
def test_what_begins_like_json_and_is_none_is_a_failure(text: str) -> None:
    answer = read_answer("UserPromptSubmit", HookOutput(text))
    assert answer.failure
    assert answer.context == ()


def allows(found: Any) -> bool:
    """Whether the words of an answer say yes, looked for by other means than the code's."""
    if not isinstance(found, dict):
        return False
    specific = found.get(SPECIFIC)
    specific = specific if isinstance(specific, dict) else {}
    request = specific.get("decision")
    behavior = request.get("behavior") if isinstance(request, dict) else None
    return found.get("decision") == "approve" or "allow" in (specific.get("permissionDecision"), behavior)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(["allow", "deny", "ask", "approve", "block", "Allow", " allow", "allow "]) | ANY
REQUEST = st.fixed_dictionaries({}, optional={"behavior": WORDS, "updatedInput": ANY, "message": ANY, "interrupt": ANY})
INNER = st.fixed_dictionaries(
    {},
    optional={
        "hookEventName": st.sampled_from(EVENTS) | ANY,
        "permissionDecision": WORDS,
        "permissionDecisionReason": ANY,
        "updatedInput": ANY,
        "additionalContext": ANY,
        "decision": REQUEST | WORDS,
        "updatedMCPToolOutput": ANY,
    },
)
OUTER = st.fixed_dictionaries(
    {},
    optional={
        "continue": ANY,
        "stopReason": ANY,
        "suppressOutput": ANY,
        "systemMessage": ANY,
        "decision": WORDS,
        "reason": ANY,
        SPECIFIC: INNER | ANY,
    },
)


@given(st.sampled_from(EVENTS), OUTER)
def test_no_answer_raises_or_allows_unless_it_says_so(event: str, found: Any) -> None:
    answer = parse_output(event, found)
    if answer.decision == "allow":
        assert event in {"PreToolUse", "PermissionRequest"}
        assert allows(found)
        assert answer.failure is None
    assert all(isinstance(words, str) for words in answer.context)


@given(
    st.sampled_from(EVENTS), st.binary() | st.binary().map(lambda data: b"{" + data), st.binary(), st.integers(0, 255)
)
def test_no_bytes_raise_or_allow(event: str, out: bytes, err: bytes, code: int) -> None:
    reply = HookOutput(out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), code)
    answer = read_answer(event, reply)
    assert answer.decision in (None, "deny")
    assert (answer.decision == "deny") <= (code == 2)


@given(st.sampled_from(EVENTS), st.text())
def test_a_hook_that_broke_says_nothing(event: str, error: str) -> None:
    assert read_answer(event, HookFailure(error)) == Answer(failure=error)
