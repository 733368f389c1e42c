"""The permission chain: one function, ten steps, the first decision wins."""

from dataclasses import dataclass
from typing import Literal

from ostler.protocol.session import Mode, OnAsk
from ostler.protocol.shapes import Decision
from ostler.server.engine.rules import RuleBook, parse_rule
from ostler.tools.tool import Allow, AnyTool, AskFirst, Check, Pass, Refuse, ToolInput


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """All that a decision reads beside the call: one object, replaced as a whole when rules or mode change."""

    mode: Mode
    on_ask: OnAsk
    rules: RuleBook


@dataclass(frozen=True, slots=True)
class Verdict:
    behavior: Literal["allow", "ask", "deny"]
    by: str
    """rule, mode, tool, safety, read_only, on_ask, default."""
    reason: str = ""
    rule: str | None = None
    source: str | None = None
    ask: AskFirst | None = None
    """What the tool has to say about the ask."""

    def decision(self) -> Decision:
        return Decision(behavior=self.behavior, by=self.by, rule=self.rule, source=self.source)


def decide(tool: AnyTool, given: ToolInput, check: Check, context: PermissionContext) -> Verdict:
    """What happens to a call. Hooks and the classifier take their steps when they come."""
    # 1. A deny rule: nothing overrides it.
    denied = context.rules.find("deny", tool, given)
    if denied and not denied.unsure:
        return Verdict("deny", "rule", f"The rule {denied.rule.text} denies it.", denied.rule.text, denied.rule.source)
    # 2. A hook's deny.
    # 3. An ask rule, or a deny rule that may be meant: no allow rule and no mode skips it.
    asked = denied or context.rules.find("ask", tool, given)
    if asked:
        why = f"The rule {asked.rule.text} may speak of it." if asked.unsure else f"The rule {asked.rule.text} asks."
        verdict = Verdict("ask", "rule", why, asked.rule.text, asked.rule.source, _words(check))
        return _unless_nobody_answers(tool, given, verdict, context)
    # 4. The tool's own check: its refusal, and what a person has to see in every mode.
    if isinstance(check, Refuse):
        return Verdict("deny", "tool", check.reason)
    if isinstance(check, AskFirst) and check.safety:
        return _unless_nobody_answers(tool, given, Verdict("ask", "safety", check.reason, ask=check), context)
    # 5. Modes that settle everything that is left, one way or the other.
    if context.mode == "bypassPermissions":
        return Verdict("allow", "mode")
    if context.mode == "plan" and not tool.is_read_only(given):
        reason = "The session is in plan mode: nothing is changed until the plan is approved. Read, search and plan."
        return Verdict("deny", "mode", reason)
    # 6. An allow rule.
    allowed = context.rules.find("allow", tool, given)
    if allowed:
        return Verdict("allow", "rule", rule=allowed.rule.text, source=allowed.rule.source)
    # 7. The tool's own check: what it lets pass by itself.
    if isinstance(check, Allow):
        return Verdict("allow", "read_only" if tool.is_read_only(given) else "tool")
    # 8. The classifier of mode auto; without one, a person decides.
    # 9. and 10. Nobody to ask, or ask.
    reason = check.reason if isinstance(check, AskFirst) else ""
    return _unless_nobody_answers(tool, given, Verdict("ask", "default", reason, ask=_words(check)), context)


def denied_by_rule(tool: AnyTool, given: ToolInput, context: PermissionContext) -> Verdict | None:
    """The first step alone: looked at again when a person said yes, since rules may have changed meanwhile."""
    denied = context.rules.find("deny", tool, given)
    if denied is None or denied.unsure:
        return None
    return Verdict("deny", "rule", f"The rule {denied.rule.text} denies it.", denied.rule.text, denied.rule.source)


def rule_for(tool: AnyTool, given: ToolInput) -> str | None:
    """The narrowest rule that speaks of this call; None where every rule that could be written says more than that."""
    content = tool.permission_matcher(given)
    if not content:
        return tool.name
    text = f"{tool.name}({content})"
    rule = parse_rule(text, "allow", "session")
    return text if rule.content == content and not rule.is_pattern else None


def _words(check: Check) -> AskFirst | None:
    match check:
        case AskFirst():
            return check
        case Allow() | Refuse() | Pass():
            return None


def _unless_nobody_answers(tool: AnyTool, given: ToolInput, ask: Verdict, context: PermissionContext) -> Verdict:
    """Step 9: where nobody is asked, what would ask is denied, in words that name the way out."""
    if context.mode == "dontAsk":
        who = "The mode dontAsk denies whatever would be asked."
    elif context.on_ask == "deny":
        who = "Nobody is asked in this session (on_ask is deny)."
    else:
        return ask
    if ask.by == "safety":
        return Verdict("deny", ask.by, f"{who} No rule allows this: a person has to see it. {ask.reason}".strip())
    rule = rule_for(tool, given)
    way_out = f"The rule {rule} would allow it." if rule else "No rule could allow it."
    return Verdict("deny", "mode" if context.mode == "dontAsk" else "on_ask", f"{who} {way_out}")
