"""Permission rules: `Tool` or `Tool(content)`, compared by exact text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ostler.tools.tool import AnyTool, ToolInput

Behavior = Literal["allow", "ask", "deny"]
BEHAVIORS: Final[tuple[Behavior, ...]] = ("deny", "ask", "allow")

_RULE: Final = re.compile(r"\s*(?P<tool>[A-Za-z_][\w-]*(?:\*)?)\s*(?:\((?P<content>.*)\))?\s*", re.DOTALL)
_PATTERN: Final = re.compile(r"[*?\[\]!]|:\*|^[~/.]{1,2}/|^//|^domain:|^prompt:")
_SHELL_PATTERN: Final = re.compile(r"\*|^prompt:")
_SHELLS: Final = {"Bash", "PowerShell"}
_COVERED_BY: Final = {"Write": ("Edit",), "NotebookEdit": ("Edit",), "Grep": ("Read",), "Glob": ("Read",)}
"""Whose rules bind a tool beside its own."""


class BadRule(ValueError):
    """A rule that cannot be read."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, and where it comes from."""

    behavior: Behavior
    tool: str
    content: str | None
    text: str
    source: str

    @property
    def is_pattern(self) -> bool:
        """Its content says more than a text to compare with. Only exact text is understood so far."""
        pattern = _SHELL_PATTERN if self.tool in _SHELLS else _PATTERN
        return self.content is not None and bool(pattern.search(self.content))


def parse_rule(text: str, behavior: Behavior, source: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise BadRule(f"{text!r} is no rule: write Tool or Tool(content)")
    if match["tool"].endswith("*") and not match["tool"].startswith("mcp__"):
        raise BadRule(f"{text!r} is no rule: name one tool, without *")
    content = match["content"]
    # `Bash()` and `Bash(*)` say the same as `Bash`.
    if content is not None and content.strip() in {"", "*"}:
        content = None
    return Rule(behavior, match["tool"], content, text.strip(), source)


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that speaks of a call; `unsure` where it may or may not, so that a person has to look."""

    rule: Rule
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules in force, as one immutable object."""

    rules: tuple[Rule, ...] = ()
    _by_behavior: dict[Behavior, tuple[Rule, ...]] = field(init=False)

    def __post_init__(self) -> None:
        grouped = {kind: tuple(rule for rule in self.rules if rule.behavior == kind) for kind in BEHAVIORS}
        object.__setattr__(self, "_by_behavior", grouped)

    @classmethod
    def of_session(cls, rules: Mapping[str, Sequence[str]]) -> "RuleBook":
        parsed = [parse_rule(text, kind, "session") for kind in BEHAVIORS for text in rules.get(kind) or ()]
        return cls(tuple(parsed))

    def find(self, behavior: Behavior, tool: AnyTool, given: ToolInput) -> Match | None:
        """The first rule of this kind that speaks of the call."""
        names = {tool.name, *tool.aliases, *_COVERED_BY.get(tool.name, ())}
        unsure: Match | None = None
        for rule in self._by_behavior[behavior]:
            if rule.tool not in names:
                continue
            if rule.content is None or rule.content == tool.permission_matcher(given):
                return Match(rule)
            # A pattern that forbids and that is not understood may well be about this call: fail closed.
            if behavior != "allow" and rule.is_pattern:
                unsure = unsure or Match(rule, unsure=True)
        return unsure

    def denied_tools(self) -> frozenset[str]:
        """Tools that are denied as a whole, which the model is not even told of."""
        return frozenset(rule.tool for rule in self._by_behavior["deny"] if rule.content is None)


def check_rules(rules: Mapping[str, Iterable[Any]], tools: Iterable[str]) -> list[str]:
    """What is wrong with each rule that cannot be read, or that names a tool almost."""
    names = {name.casefold(): name for name in tools}
    problems: list[str] = []
    for kind in BEHAVIORS:
        for text in rules.get(kind) or ():
            try:
                tool = parse_rule(str(text), kind, "session").tool
            except BadRule as error:
                problems.append(str(error))
                continue
            meant = names.get(tool.casefold(), tool)
            if meant != tool:
                problems.append(f"{text!r} speaks of no tool; {meant} is written so")
    return problems
