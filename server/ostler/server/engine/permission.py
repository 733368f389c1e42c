"""The permission chain: one function, ten steps, the first decision wins."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ostler.protocol.session import Mode, OnAsk
from ostler.protocol.shapes import Decision
from ostler.server.classifier import Opinion
from ostler.server.engine.matching import Found, allowing, forbidding
from ostler.server.hooks import NOTHING, Outcome
from ostler.server.settings import RuleSet
from ostler.tools import commands, paths
from ostler.tools.command_check import reading
from ostler.tools.context import Surroundings
from ostler.tools.guarded import why_guarded
from ostler.tools.rules import BadRule, exact_path, parse_rule, rule_text
from ostler.tools.subject import Place, Subject, server_rule
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

    def decision(self) -> Decision:
        return Decision(
            behavior=self.behavior, by=self.by, rule=self.rule, source=self.source, reason=self.reason or None
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
        return _unless_nobody_answers(case, unsure, context)
    asked = forbidding(context.rules, "ask", tool, case.subject)
    if asked and not (tool.runs_commands and context.skips_ask_rules):
        by_rule = _by_rule("ask", asked, f"The rule {asked.rule.rule.text} asks.", _words(check))
        return _unless_nobody_answers(case, by_rule, context)
    if hook.decision == "ask":
        by_hook = Verdict("ask", "hook", hook.reason, source=hook.by, ask=_words(check))
        return _unless_nobody_answers(case, by_hook, context)
    # 4. The tool's own check: its refusal, and what a person has to see in every mode.
    if isinstance(check, Refuse):
        return Verdict("deny", "tool", check.reason)
    if isinstance(check, AskFirst) and check.safety:
        return _unless_nobody_answers(case, Verdict("ask", "safety", check.reason, ask=check), context)
    # 5. Modes that settle everything that is left, one way or the other.
    if context.mode == "bypassPermissions":
        return Verdict("allow", "mode")
    if context.mode == "plan" and not tool.is_read_only(given):
        reason = "The session is in plan mode: nothing is changed until the plan is approved. Read, search and plan."
        return Verdict("deny", "mode", reason)
    # 6. An allow rule, or a hook's allow.
    allowed = allowing(
        context.rules, tool, case.subject, context.surroundings, lambda place: _edits_freely(place, context)
    )
    if allowed:
        return Verdict("allow", "rule", rule=allowed.rule.text, source=allowed.source)
    if hook.decision == "allow":
        return Verdict("allow", "hook", hook.reason, source=hook.by)
    # 7. The tool's own check: what it lets pass by itself.
    if isinstance(check, Allow):
        return Verdict("allow", "read_only" if tool.is_read_only(given) else "tool")
    # 8. The classifier of mode auto, and of commands where it is on for them.
    reason = check.reason if isinstance(check, AskFirst) else ""
    if (opinion := await _opinion(case, context)) is not None:
        if opinion.behavior == "allow" or (opinion.behavior == "deny" and context.mode == "auto"):
            return Verdict(opinion.behavior, "classifier", opinion.reason, source=opinion.model)
        reason = f"{reason} The classifier: {opinion.reason}".strip()
    # 9. and 10. Nobody to ask, or ask.
    return _unless_nobody_answers(case, Verdict("ask", "default", reason, ask=_words(check)), context)


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


async def _opinion(case: Case, context: PermissionContext) -> Opinion | None:
    wanted = context.mode == "auto" or (
        case.tool.runs_commands and context.bash_classifier and context.mode in {"default", "acceptEdits"}
    )
    return await case.classify() if wanted and case.classify is not None else None


def _edits_freely(place: Place, context: PermissionContext) -> bool:
    """Whether the mode lets a file be written without a rule."""
    return (
        context.mode == "acceptEdits"
        and paths.inside_roots(place.real, context.surroundings)
        and why_guarded(place.written, place.real) is None
    )


def rules_for(tool: AnyTool, given: ToolInput) -> list[str]:
    """Rules that would settle calls like this one from now on, the best first; none where none could be written."""
    path, server = tool.path(given), tool.server(given)
    if server is not None:
        texts = [server_rule(server)]
    elif path is not None:
        texts = [rule_text("Read" if tool.runs_commands else tool.name, exact_path(path))]
    elif tool.runs_commands:
        command = tool.permission_matcher(given)
        owner = tool.name if tool.is_shell else "Bash"
        texts = [rule_text(owner, content) for content in _contents_for(command)]
    else:
        content = tool.permission_matcher(given)
        texts = [rule_text(tool.name, content) if content else tool.name]
    return [text for text in texts if _can_be_read(text)]


def _contents_for(command: str) -> list[str]:
    read = reading(command)
    contents = commands.suggested_rules(read)
    if len(contents) != 1:
        # One rule has to cover all of it: the whole line, where that can be written.
        contents = [command.strip()] if "*" not in command else []
    writes = any(found.writes for part in read.parts for found in part.redirections)
    return [each for each in contents if writes or not commands.judge_allow(read, [each], commands.part_is_read_only)]


def rule_for(tool: AnyTool, given: ToolInput) -> str | None:
    return next(iter(rules_for(tool, given)), None)


def _can_be_read(text: str) -> bool:
    try:
        parse_rule(text)
    except BadRule:
        return False
    return len(text) <= _MAX_RULE_CHARS


_MAX_RULE_CHARS = 2000


def _words(check: Check) -> AskFirst | None:
    match check:
        case AskFirst():
            return check
        case Allow() | Refuse() | Pass():
            return None


def _unless_nobody_answers(case: Case, ask: Verdict, context: PermissionContext) -> Verdict:
    """Step 9: where nobody is asked, what would ask is denied, in words that name the way out."""
    if context.mode == "dontAsk":
        who = "The mode dontAsk denies whatever would be asked."
    elif context.on_ask == "deny":
        who = "Nobody is asked in this session (on_ask is deny)."
    else:
        return ask
    if ask.by == "safety":
        return Verdict("deny", ask.by, f"{who} No rule allows this: a person has to see it. {ask.reason}".strip())
    rule = rule_for(case.tool, case.given)
    way_out = f"The rule {rule} would allow it." if rule else "No rule could allow it."
    return Verdict("deny", "mode" if context.mode == "dontAsk" else "on_ask", f"{who} {way_out}")
