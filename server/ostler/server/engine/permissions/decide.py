"""The permission chain: one function, ten steps, the first decision wins."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ostler.protocol import times
from ostler.protocol.session import Mode, OnAsk
from ostler.protocol.shapes import Decision
from ostler.server.classifier import Opinion
from ostler.server.engine.permissions.rule_match import Found, allowing, forbidding
from ostler.server.engine.permissions.suggest import helping_rule
from ostler.server.hooks import NOTHING, Outcome
from ostler.server.settings import RuleSet, SourcedRule
from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import why_guarded
from ostler.tools.permissions.subject import Place, Subject
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AnyTool, AskFirst, Check, Pass, Refuse, ToolInput


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """All that a decision reads beside the call: one object, replaced as a whole when rules or mode change."""

    mode: Mode
    on_ask: OnAsk
    rules: RuleSet
    surroundings: Surroundings
    bash_classifier: bool = False
    """The classifier's yes settles a command outside mode auto, too."""
    skips_ask_rules: bool = False
    """Commands run in the workspace's sandbox, and the configuration says that ask rules need not bind them."""
    only_policy_allows: bool = False
    """By policy: an allow rule that a person adds does not count."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call about which a decision is wanted."""

    tool: AnyTool
    given: ToolInput
    check: Check
    """What the tool says about it."""
    subject: Subject
    """What rules look at."""
    hook: Outcome = NOTHING
    """What the hooks said."""
    classify: Callable[[], Awaitable[Opinion]] | None = None
    """Asks the classifier; null where there is none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    behavior: Literal["allow", "ask", "deny"]
    by: str
    """rule, hook, mode, tool, safety, read_only, classifier, on_ask, default."""
    reason: str = ""
    rule: str | None = None
    source: str | None = None
    ask: AskFirst | None = None
    """What the tool has to say about the ask."""
    helps: str | None = None
    """The rule with which the very same call would pass; null where none would."""
    decided_at: str | None = None
    """When a person said so; null where it is decided now."""

    def decision(self) -> Decision:
        return Decision(
            behavior=self.behavior,
            by=self.by,
            rule=self.rule,
            source=self.source,
            reason=self.reason or None,
            decided_at=self.decided_at or times.now(),
        )


async def decide(case: Case, context: PermissionContext) -> Verdict:  # noqa: PLR0912 - ten steps, in one place
    """What happens to a call."""
    tool, given, check, hook = case.tool, case.given, case.check, case.hook
    # 1. A deny rule: nothing overrides it.
    denied = forbidding(context.rules, "deny", tool, case.subject)
    if denied and not denied.unsure:
        return _by_rule("deny", denied, f"The rule {denied.rule.rule.text} denies it.")
    # 2. A hook's deny.
    if hook.decision == "deny":
        return Verdict("deny", "hook", hook.reason, source=hook.by)
    # 3. An ask rule, or a hook's ask: no allow rule, mode or other hook's allow skips it. Where only the run would
    #    tell whether a rule forbids it, a person looks, in every mode.
    if denied:
        why = f"It cannot be told whether the rule {denied.rule.rule.text} forbids it."
        unsure = Verdict("ask", "safety", why, denied.rule.rule.text, denied.rule.source, _words(check))
        return _unless_nobody_answers(unsure, context)
    asked = forbidding(context.rules, "ask", tool, case.subject)
    if asked and not (tool.runs_commands and context.skips_ask_rules):
        by_rule = _by_rule("ask", asked, f"The rule {asked.rule.rule.text} asks.", _words(check))
        return _unless_nobody_answers(by_rule, context)
    if hook.decision == "ask":
        by_hook = Verdict("ask", "hook", hook.reason, source=hook.by, ask=_words(check))
        return _unless_nobody_answers(by_hook, context)
    # 4. The tool's own check: its refusal, and what a person has to see in every mode.
    if isinstance(check, Refuse):
        return Verdict("deny", "tool", check.reason)
    if isinstance(check, AskFirst) and check.safety:
        return _unless_nobody_answers(Verdict("ask", "safety", check.reason, ask=check), context)
    # 5. Modes that settle everything that is left, one way or the other.
    if context.mode == "bypassPermissions":
        return Verdict("allow", "mode")
    if context.mode == "plan" and not tool.is_read_only(given):
        reason = "The session is in plan mode: nothing is changed until the plan is approved. Read, search and plan."
        return Verdict("deny", "mode", reason)
    # 6. An allow rule, or a hook's allow.
    if allowed := _allowed(tool, case.subject, context, context.rules):
        return Verdict("allow", "rule", rule=allowed.rule.text, source=allowed.source)
    if hook.decision == "allow":
        return Verdict("allow", "hook", hook.reason, source=hook.by)
    # 7. The tool's own check: what it lets pass by itself.
    if isinstance(check, Allow):
        return Verdict("allow", "read_only" if tool.is_read_only(given) else "tool")
    # 8. The classifier of mode auto, and of commands where it is on for them.
    reason = check.reason if isinstance(check, AskFirst) else ""
    if (opinion := await _opinion(case, context)) is not None:
        if opinion.behavior == "allow":
            return Verdict("allow", "classifier", opinion.reason, source=opinion.model)
        if opinion.behavior == "deny" and context.mode == "auto":
            helps = await _helping(case, context)
            return Verdict("deny", "classifier", opinion.reason, source=opinion.model, helps=helps)
        reason = f"{reason} The classifier: {opinion.reason}".strip()
    # 9. and 10. Nobody to ask, or ask.
    verdict = Verdict("ask", "default", reason, ask=_words(check), helps=await _helping(case, context))
    return _unless_nobody_answers(verdict, context)


def denied_by_rule(case: Case, context: PermissionContext) -> Verdict | None:
    """The first step alone: looked at again when a person said yes, since rules may have changed meanwhile."""
    denied = forbidding(context.rules, "deny", case.tool, case.subject)
    if denied is None or denied.unsure:
        return None
    return _by_rule("deny", denied, f"The rule {denied.rule.rule.text} denies it.")


def _by_rule(behavior: Literal["ask", "deny"], found: Found, reason: str, ask: AskFirst | None = None) -> Verdict:
    if found.unsure:
        reason = f"It cannot be told whether the rule {found.rule.rule.text} speaks of it."
    return Verdict(behavior, "rule", reason, found.rule.rule.text, found.rule.source, ask)


def heeds_classifier(tool: AnyTool, context: PermissionContext) -> bool:
    """Whether the classifier has a say about calls of this tool."""
    of_commands = context.bash_classifier and context.mode in {"default", "acceptEdits"}
    return context.mode == "auto" or (tool.runs_commands and of_commands)


async def _opinion(case: Case, context: PermissionContext) -> Opinion | None:
    if case.classify is None or not heeds_classifier(case.tool, context):
        return None
    return await case.classify()


def _allowed(tool: AnyTool, subject: Subject, context: PermissionContext, rules: RuleSet) -> SourcedRule | None:
    return allowing(rules, tool, subject, context.surroundings, lambda place: _edits_freely(place, context))


async def _helping(case: Case, context: PermissionContext) -> str | None:
    """A rule that lets the call pass at step 6: found by trying it, so that what is offered is what holds."""
    if context.only_policy_allows:
        return None
    # All that the call touches: a case knows only as much as the rules that there are ask for.
    subject = await case.tool.subject(case.given, context.surroundings)

    def passes(rules: RuleSet) -> bool:
        return _allowed(case.tool, subject, context, rules) is not None

    return await read_in_thread(helping_rule, case.tool, case.given, context.rules, context.surroundings, passes)


def _edits_freely(place: Place, context: PermissionContext) -> bool:
    """Whether the mode lets a file be written without a rule."""
    return (
        context.mode == "acceptEdits"
        and paths.inside_roots(place.real, context.surroundings)
        and why_guarded(place.written, place.real) is None
    )


def _words(check: Check) -> AskFirst | None:
    match check:
        case AskFirst():
            return check
        case Allow() | Refuse() | Pass():
            return None


def _unless_nobody_answers(ask: Verdict, context: PermissionContext) -> Verdict:
    """Step 9: where nobody is asked, what would ask is denied, in words that name the way out."""
    if context.mode == "dontAsk":
        who = "The mode dontAsk denies whatever would be asked."
    elif context.on_ask == "deny":
        who = "Nobody is asked in this session (on_ask is deny)."
    else:
        return ask
    if ask.by == "safety":
        return Verdict("deny", ask.by, f"{who} No rule allows this: a person has to see it. {ask.reason}".strip())
    by = "mode" if context.mode == "dontAsk" else "on_ask"
    if ask.by in {"rule", "hook"}:
        return Verdict("deny", by, f"{who} No rule allows what is to be asked about. {ask.reason}".strip())
    way_out = f"The rule {ask.helps} would allow it." if ask.helps else "No rule could allow it."
    return Verdict("deny", by, f"{who} {way_out}", helps=ask.helps)
