"""The permission chain, which decides whether a call may run: one function, ten steps, the first decision wins."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ostler.protocol import times
from ostler.protocol.session import Mode, OnAsk
from ostler.protocol.shapes import Decision
from ostler.server.classifier import Opinion
from ostler.server.engine.permissions.file_match import ForbiddingBehavior, needs_look
from ostler.server.engine.permissions.rule_match import (
    RuleMatch,
    find_allow_rule,
    find_forbidding_rule,
    find_unseen_rule,
)
from ostler.server.engine.permissions.suggest import suggest_rule
from ostler.server.hooks import NO_OUTCOME, Outcome
from ostler.server.settings import RuleSet, SourcedRule
from ostler.tools.call_subject import find_subject
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.permissions.guards import find_known_guard
from ostler.tools.permissions.rule_families import BASH
from ostler.tools.permissions.subject import AccessedPath, CommandSubject, Subject
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AnyTool, AskFirst, AskPeople, Check, Pass, Refuse, ToolInput


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """All that a decision depends on besides the call: one object, replaced as a whole when rules or mode change."""

    mode: Mode
    on_ask: OnAsk
    rules: RuleSet
    view: SessionView
    bash_classifier: bool = False
    """The classifier may allow commands in the modes default and acceptEdits, too."""
    skips_ask_rules: bool = False
    """Commands run in the workspace's sandbox, and the configuration exempts them from ask rules."""
    only_policy_allows: bool = False
    """The managed policy says that allow rules from elsewhere do not count."""
    grants: tuple[str, ...] = ()
    """What commands may do since a plan was approved, in words."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call to decide about."""

    tool: AnyTool
    parsed_input: ToolInput
    check: Check
    """The result of the tool's own check."""
    subject: Subject
    """What rules are matched with: paths, a command, a server or a text."""
    hook: Outcome = NO_OUTCOME
    """The outcome of PreToolUse hooks."""
    classify: Callable[[], Awaitable[Opinion]] | None = None
    """Asks the classifier; null where there is none."""
    is_classified: Callable[[], bool] = lambda: False
    """Whether its opinion is there already."""
    judge_grants: Callable[[], Awaitable[Opinion]] | None = None
    """Asks whether the call is meant by what was approved with a plan; null where nothing was."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call, with all that an ask or a denial says about it."""

    behavior: Literal["allow", "ask", "deny"]
    by: str
    """rule, hook, mode, tool, safety, read_only, grant, classifier, on_ask, default."""
    reason: str = ""
    rule: str | None = None
    source: str | None = None
    ask: AskFirst | None = None
    """The tool's own text for the ask."""
    allow_with: str | None = None
    """A rule that would allow the very same call; null where none would."""
    decided_at: str | None = None
    """When a person decided it; null where it is decided now."""
    classifies: bool = False
    """The classifier may settle the ask; nobody waits for it."""

    def to_decision(self) -> Decision:
        return Decision(
            behavior=self.behavior,
            by=self.by,
            rule=self.rule,
            source=self.source,
            reason=self.reason or None,
            decided_at=self.decided_at or times.now(),
        )


async def decide(case: Case, context: PermissionContext) -> Verdict:  # noqa: PLR0912 - ten steps, in one place
    """Whether a call is allowed, asked about or denied."""
    tool, parsed_input, check, hook = case.tool, case.parsed_input, case.check, case.hook
    # 1. A deny rule: nothing overrides it.
    denied = await _find_forbidding_rule("deny", case, context)
    if denied and not denied.unsure:
        return _build_rule_verdict("deny", denied, f"The rule {denied.rule.rule.text} denies it.")
    # 2. A hook's deny.
    if hook.decision == "deny":
        return Verdict("deny", "hook", hook.reason, source=hook.by)
    # 3. An ask rule, or a hook's ask: no allow rule, mode or other hook's allow skips it. Where only the run would
    #    tell whether a rule forbids it, a person is asked, in every mode.
    if denied:
        why = f"It cannot be told whether the rule {denied.rule.rule.text} forbids it{_explain(denied)}."
        unsure = Verdict("ask", "safety", why, denied.rule.rule.text, denied.rule.source, _get_tool_ask(check))
        return _deny_if_nobody_answers(unsure, context)
    asked = await _find_forbidding_rule("ask", case, context)
    if asked and not _skips(asked, case, context):
        by_rule = _build_rule_verdict("ask", asked, f"The rule {asked.rule.rule.text} asks.", _get_tool_ask(check))
        return _deny_if_nobody_answers(by_rule, context)
    if hook.decision == "ask":
        by_hook = Verdict("ask", "hook", hook.reason, source=hook.by, ask=_get_tool_ask(check))
        return _deny_if_nobody_answers(by_hook, context)
    # 4. The tool's own check: its refusal, and asks about safety and for answers, which hold in every mode.
    if isinstance(check, Refuse):
        return Verdict("deny", "tool", check.reason)
    if isinstance(check, AskPeople):
        return _deny_if_nobody_answers(Verdict("ask", "safety"), context, check.otherwise)
    if isinstance(check, AskFirst) and check.safety:
        return _deny_if_nobody_answers(Verdict("ask", "safety", check.reason, ask=check), context)
    # 5. Modes that decide all other calls: bypassPermissions allows, plan denies what changes more than our own state.
    if context.mode == "bypassPermissions":
        return Verdict("allow", "mode")
    passes = isinstance(check, Allow) and (check.own_state or check.reads)
    if context.mode == "plan" and not passes and not tool.is_read_only(parsed_input):
        reason = "The session is in plan mode: nothing is changed until the plan is approved. Read, search and plan."
        return Verdict("deny", "mode", reason)
    # 6. An allow rule, or a hook's allow.
    if allowed := _find_allow_rule(tool, case.subject, context, context.rules):
        return Verdict("allow", "rule", rule=allowed.rule.text, source=allowed.source)
    if hook.decision == "allow":
        return Verdict("allow", "hook", hook.reason, source=hook.by)
    # 7. The tool's own check: what it allows by itself.
    if isinstance(check, Allow):
        return Verdict("allow", "read_only" if tool.is_read_only(parsed_input) else "tool")
    # 8. What a person approved with a plan, where the small model finds the call meant by it; in every mode.
    if case.judge_grants is not None and uses_grants(tool, context):
        opinion = await case.judge_grants()
        if opinion.behavior == "allow":
            return Verdict("allow", "grant", opinion.reason, source=opinion.model)
    # And the classifier: in mode auto, and for commands where it is switched on for them. It is waited for where the
    #    mode is auto, or nobody can be asked; else the ask opens at once, and the classifier may settle it.
    reason = check.reason if isinstance(check, AskFirst) else ""
    classify = case.classify if uses_classifier(tool, context) else None
    classifies = classify is not None and not (_waits_for_classifier(context) or case.is_classified())
    if classify is not None and not classifies:
        opinion = await classify()
        if opinion.behavior == "allow":
            return Verdict("allow", "classifier", opinion.reason, source=opinion.model)
        if opinion.behavior == "deny" and context.mode == "auto":
            allow_with = await _suggest_rule(case, context)
            return Verdict("deny", "classifier", opinion.reason, source=opinion.model, allow_with=allow_with)
        reason = f"{reason} The classifier: {opinion.reason}".strip()
    # 9. and 10. Nobody to ask, or ask.
    allow_with = await _suggest_rule(case, context)
    verdict = Verdict("ask", "default", reason, ask=_get_tool_ask(check), allow_with=allow_with, classifies=classifies)
    return _deny_if_nobody_answers(verdict, context)


def _skips(asked: RuleMatch, case: Case, context: PermissionContext) -> bool:
    """Whether the sandbox stands in for an ask rule.

    Not for what cannot be seen through, which is a question of safety, and not for what runs outside of it to look.
    """
    looks_outside = isinstance(case.check, Allow) and case.check.reads
    return case.tool.shell.runs_commands and context.skips_ask_rules and not asked.unsure and not looks_outside


async def _find_forbidding_rule(
    behavior: ForbiddingBehavior, case: Case, context: PermissionContext
) -> RuleMatch | None:
    found = find_forbidding_rule(context.rules, behavior, case.tool, case.subject)
    if found is not None or not isinstance(case.subject, CommandSubject):
        return found
    if not needs_look(context.rules, behavior, case.subject):
        return None
    return await read_in_thread(find_unseen_rule, context.rules, behavior, case.subject)


def find_denial(case: Case, context: PermissionContext) -> Verdict | None:
    """The first step alone: checked again when a person said yes, since rules may have changed meanwhile."""
    denied = find_forbidding_rule(context.rules, "deny", case.tool, case.subject)
    if denied is None or denied.unsure:
        return None
    return _build_rule_verdict("deny", denied, f"The rule {denied.rule.rule.text} denies it.")


def _build_rule_verdict(
    behavior: Literal["ask", "deny"], match: RuleMatch, reason: str, ask: AskFirst | None = None
) -> Verdict:
    if match.unsure:
        reason = f"It cannot be told whether the rule {match.rule.rule.text} speaks of it{_explain(match)}."
    return Verdict(behavior, "rule", reason, match.rule.rule.text, match.rule.source, ask)


def _explain(match: RuleMatch) -> str:
    return f": {match.why}" if match.why else ""


def uses_classifier(tool: AnyTool, context: PermissionContext) -> bool:
    """Whether the classifier decides about calls of this tool in the present mode."""
    for_commands = context.bash_classifier and context.mode in {"default", "acceptEdits", "dontAsk"}
    return context.mode == "auto" or (tool.shell.runs_commands and for_commands)


def uses_grants(tool: AnyTool, context: PermissionContext) -> bool:
    """Whether a person approved commands along with a plan, which this tool runs."""
    return bool(context.grants) and tool.name == BASH


def _waits_for_classifier(context: PermissionContext) -> bool:
    return context.mode in {"auto", "dontAsk"} or context.on_ask == "deny"


def _find_allow_rule(tool: AnyTool, subject: Subject, context: PermissionContext, rules: RuleSet) -> SourcedRule | None:
    return find_allow_rule(rules, tool, subject, context.view, lambda place: _edits_freely(place, context))


async def _suggest_rule(case: Case, context: PermissionContext) -> str | None:
    """A rule that would allow the call at step 6, found by trying it: what is offered has to work."""
    if context.only_policy_allows:
        return None
    subject = case.subject
    if not isinstance(subject, CommandSubject):
        # All that the call touches: the subject of the case may have only what the existing rules need.
        subject = await find_subject(case.tool, case.parsed_input, context.view)

    def passes(rules: RuleSet) -> bool:
        return _find_allow_rule(case.tool, subject, context, rules) is not None

    return await read_in_thread(suggest_rule, case.tool, case.parsed_input, context.rules, context.view, passes)


def _edits_freely(place: AccessedPath, context: PermissionContext) -> bool:
    """Whether the mode lets a file be written without a rule."""
    return (
        context.mode == "acceptEdits"
        and paths.is_inside_roots(place.real, context.view)
        and find_known_guard(place.written, place.real, context.view) is None
    )


def _get_tool_ask(check: Check) -> AskFirst | None:
    match check:
        case AskFirst():
            return check
        case Allow() | AskPeople() | Refuse() | Pass():
            return None


def _deny_if_nobody_answers(ask: Verdict, context: PermissionContext, otherwise: str = "") -> Verdict:
    """Step 9: where nobody can be asked, the ask becomes a denial, whose reason names a rule that would help."""
    if context.mode == "dontAsk":
        who = "The mode dontAsk denies whatever would be asked."
    elif context.on_ask == "deny":
        who = "Nobody is asked in this session (on_ask is deny)."
    else:
        return ask
    if otherwise:
        return Verdict("deny", ask.by, f"{who} {otherwise}")
    if ask.by == "safety":
        return Verdict("deny", ask.by, f"{who} No rule allows this: a person has to see it. {ask.reason}".strip())
    by = "mode" if context.mode == "dontAsk" else "on_ask"
    if ask.by in {"rule", "hook"}:
        return Verdict("deny", by, f"{who} No rule allows what is to be asked about. {ask.reason}".strip())
    way_out = f"The rule {ask.allow_with} would allow it." if ask.allow_with else "No rule could allow it."
    return Verdict("deny", by, f"{who} {way_out}", allow_with=ask.allow_with)
