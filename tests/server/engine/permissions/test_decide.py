"""The ten steps of a permission decision, as a table."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import pytest

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode, OnAsk
from ostler.server.classifier import Behavior, Opinion
from ostler.server.engine.permissions.decide import Case, PermissionContext, Verdict, decide, find_denial
from ostler.server.engine.permissions.suggest import list_candidates
from ostler.server.hooks import NO_OUTCOME, Outcome
from ostler.server.settings import Origin, RuleSet, parse_rules
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.permissions.subject import TextSubject
from ostler.tools.tool import Allow, AskFirst, Check, Pass, Refuse, Tool, ToolInput, ToolOutput, ToolResult
from ostler.tools.traits import PermissionTraits
from tests.support.tables import try_each


class ActInput(ToolInput):
    """What to do."""

    what: str = "it"
    reads: bool = False


class ActOutput(ToolOutput):
    """Nothing."""


class Act(Tool[ActInput, ActOutput]):
    """A tool without rules of its own."""

    name = "Act"
    Input = ActInput
    Output = ActOutput
    permissions = PermissionTraits(text="what")

    def is_read_only(self, given: ActInput) -> bool:
        return given.reads

    async def run(self, given: ActInput, context: ToolContext) -> ToolResult[ActOutput]:
        return ToolResult(ActOutput())


MODES: Final[tuple[Mode, ...]] = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
CHECKS: Final[dict[str, Check]] = {
    "pass": Pass(),
    "allow": Allow(),
    "ask": AskFirst("May I?", "a reason"),
    "safety": AskFirst("Really?", "guarded", safety=True),
    "refuse": Refuse("never"),
}


def decide_call(
    check: Check,
    mode: Mode = "default",
    rules: dict[str, list[str]] | None = None,
    *,
    on_ask: OnAsk = "ask",
    reads: bool = False,
    hook: Outcome = NO_OUTCOME,
    classify: Callable[[], Awaitable[Opinion]] | None = None,
) -> Verdict:
    given = ActInput(reads=reads)
    case = Case(Act(), given, check, TextSubject(given.what), hook, classify)
    return anyio.run(decide, case, make_context(mode, rules, on_ask=on_ask))


def make_context(
    mode: Mode = "default", rules: dict[str, list[str]] | None = None, *, on_ask: OnAsk = "ask"
) -> PermissionContext:
    found = RuleSet.of(parse_rules(rules or {}, Origin("session", None, "/p", "/p", "/home/me")), {})
    view = SessionView(SessionId("s_1"), "/p", "/p", ("/p",), mode)
    return PermissionContext(mode, on_ask, found, view)


CHANGING: Final[dict[str, tuple[str, ...]]] = {
    # of a call that changes something, in the order of MODES
    "pass": ("ask", "ask", "deny", "ask", "deny", "allow"),
    "allow": ("allow", "allow", "deny", "allow", "allow", "allow"),
    "ask": ("ask", "ask", "deny", "ask", "deny", "allow"),
    "safety": ("ask", "ask", "ask", "ask", "deny", "ask"),
    "refuse": ("deny",) * 6,
}
READING: Final[dict[str, tuple[str, ...]]] = {
    **CHANGING,
    "pass": ("ask", "ask", "ask", "ask", "deny", "allow"),
    "allow": ("allow",) * 6,
    "ask": ("ask", "ask", "ask", "ask", "deny", "allow"),
}


@try_each("mode", MODES)
@try_each("check", CHECKS)
@try_each("reads", [False, True])
def test_modes_against_checks(mode: Mode, check: str, reads: bool) -> None:
    expected = (READING if reads else CHANGING)[check][MODES.index(mode)]
    assert decide_call(CHECKS[check], mode, reads=reads).behavior == expected


@try_each("mode", MODES)
@try_each("check", CHECKS)
def test_a_deny_rule_denies_in_every_mode_whatever_allows(mode: Mode, check: str) -> None:
    rules = {"deny": ["Act(it)"], "allow": ["Act"], "ask": ["Act"]}
    found = decide_call(CHECKS[check], mode, rules)
    assert (found.behavior, found.by, found.rule, found.source) == ("deny", "rule", "Act(it)", "session")


@try_each("mode", MODES)
@try_each("check", ["pass", "allow", "ask"])
def test_an_ask_rule_asks_whatever_allows(mode: Mode, check: str) -> None:
    found = decide_call(CHECKS[check], mode, {"ask": ["Act(it)"], "allow": ["Act"]})
    assert found.behavior == ("deny" if mode == "dontAsk" else "ask")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "auto", "dontAsk"])
def test_an_allow_rule_allows(mode: Mode) -> None:
    for check in (Pass(), AskFirst("May I?")):
        found = decide_call(check, mode, {"allow": ["Act(it)"]})
        assert (found.behavior, found.by, found.rule) == ("allow", "rule", "Act(it)")


def test_an_allow_rule_does_not_allow_what_a_person_has_to_see() -> None:
    assert decide_call(CHECKS["safety"], rules={"allow": ["Act"]}).behavior == "ask"
    assert decide_call(CHECKS["refuse"], rules={"allow": ["Act"]}).behavior == "deny"


def test_an_allow_rule_changes_nothing_in_plan_mode() -> None:
    found = decide_call(Pass(), "plan", {"allow": ["Act"]})
    assert (found.behavior, found.by) == ("deny", "mode")
    assert "plan" in found.reason


def test_where_nobody_is_asked_the_reason_names_the_rule() -> None:
    for mode, on_ask, by in (("default", "deny", "on_ask"), ("dontAsk", "ask", "mode")):
        found = decide_call(Pass(), mode, on_ask=on_ask)  # type: ignore[arg-type]
        assert (found.behavior, found.by) == ("deny", by)
        assert "Act(it)" in found.reason


def test_where_nobody_is_asked_a_safety_ask_says_that_no_rule_helps() -> None:
    found = decide_call(CHECKS["safety"], on_ask="deny")
    assert (found.behavior, found.by) == ("deny", "safety")
    assert "No rule allows this" in found.reason
    assert "guarded" in found.reason


def test_the_tools_words_reach_the_ask() -> None:
    for rules in (None, {"ask": ["Act"]}):
        found = decide_call(CHECKS["ask"], rules=rules)
        assert found.ask == CHECKS["ask"]
    assert decide_call(Pass()).ask is None


@pytest.mark.parametrize(("reads", "by"), [(True, "read_only"), (False, "tool")])
def test_an_allow_says_why(reads: bool, by: str) -> None:
    decision = decide_call(Allow(), reads=reads).to_decision()
    assert (decision.behavior, decision.by, decision.rule) == ("allow", by, None)


def test_deny_rules_alone_can_be_asked_again() -> None:
    def denied(what: str, **rules: list[str]) -> Verdict | None:
        case = Case(Act(), ActInput(what=what), Pass(), TextSubject(what))
        return find_denial(case, make_context(rules=rules))

    assert denied("it", allow=["Act"], ask=["Act"]) is None
    found = denied("it", deny=["Act(it)"])
    assert found is not None
    assert found.behavior == "deny"
    assert denied("other", deny=["Act(it)"]) is None


HOOKS: Final = {word: Outcome(decision=word, reason="because", by="user hook x") for word in ("allow", "ask", "deny")}


@try_each("mode", MODES)
@try_each("check", CHECKS)
def test_a_hooks_deny_denies_in_every_mode_whatever_allows(mode: Mode, check: str) -> None:
    found = decide_call(CHECKS[check], mode, {"allow": ["Act"]}, hook=HOOKS["deny"])
    assert (found.behavior, found.by, found.source, found.reason) == ("deny", "hook", "user hook x", "because")


@try_each("mode", MODES)
@try_each("check", ["pass", "allow", "ask"])
def test_a_hooks_ask_asks_whatever_allows(mode: Mode, check: str) -> None:
    found = decide_call(CHECKS[check], mode, {"allow": ["Act"]}, hook=HOOKS["ask"])
    assert found.behavior == ("deny" if mode == "dontAsk" else "ask")


def test_a_hooks_allow_allows_and_overrides_neither_rule_nor_safety_nor_plan() -> None:
    assert decide_call(CHECKS["ask"], hook=HOOKS["allow"]).by == "hook"
    assert decide_call(Pass(), rules={"deny": ["Act"]}, hook=HOOKS["allow"]).behavior == "deny"
    assert decide_call(Pass(), rules={"ask": ["Act"]}, hook=HOOKS["allow"]).behavior == "ask"
    assert decide_call(CHECKS["safety"], hook=HOOKS["allow"]).behavior == "ask"
    assert decide_call(CHECKS["refuse"], hook=HOOKS["allow"]).behavior == "deny"
    assert decide_call(Pass(), "plan", hook=HOOKS["allow"]).behavior == "deny"


@pytest.mark.parametrize("opinion", ["allow", "deny", "ask"])
def test_the_classifier_decides_in_mode_auto_after_rules_and_hooks(opinion: Behavior) -> None:
    asked: list[str] = []

    async def classify() -> Opinion:
        asked.append(opinion)
        return Opinion(opinion, "it seems so", "small")

    found = decide_call(Pass(), "auto", classify=classify)
    assert found.behavior == opinion
    assert found.by == ("default" if opinion == "ask" else "classifier")
    assert "it seems so" in found.reason
    assert decide_call(Pass(), "auto", {"deny": ["Act"]}, classify=classify).by == "rule"
    assert decide_call(Pass(), "auto", hook=HOOKS["allow"], classify=classify).by == "hook"
    assert decide_call(CHECKS["safety"], "auto", classify=classify).behavior == "ask"
    assert decide_call(Pass(), "default", classify=classify).behavior == "ask"
    assert asked == [opinion]


def test_the_suggested_rule_is_the_narrowest() -> None:
    view = SessionView(SessionId("s_1"), "/p", "/p", ("/p",), "default")
    assert list_candidates(Act(), ActInput(what="make x"), view) == ["Act(make x)"]
    assert list_candidates(Act(), ActInput(what=""), view) == ["Act"]
