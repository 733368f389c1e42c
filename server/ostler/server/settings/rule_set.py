"""The rules in force, as one immutable object that finds those of a tool at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ostler.protocol import times
from ostler.server.settings.types import Behavior, SourcedRule
from ostler.tools import commands
from ostler.tools.permissions import COVERED_BY

_Index = dict[tuple[Behavior, str], tuple[SourcedRule, ...]]


@dataclass(frozen=True, slots=True)
class CommandRules:
    """Rules about commands, indexed so that of a thousand only those are tried that may match a command."""

    rules: tuple[SourcedRule, ...]
    whole: SourcedRule | None
    """The first that matches every command."""
    contents: "commands.Contents"
    by_content: Mapping[str, SourcedRule]

    @classmethod
    def of(cls, behavior: Behavior, rules: tuple[SourcedRule, ...]) -> "CommandRules":
        whole = next((rule for rule in rules if rule.rule.content is None), None)
        by_content = {rule.rule.content or "": rule for rule in reversed(rules)}
        if behavior == "allow":
            contents = commands.index_allow_rules(rule.rule.content or "" for rule in rules)
        else:
            contents = commands.index_forbid_rules(by_content)
        return cls(rules, whole, contents, by_content)


@dataclass(frozen=True, slots=True)
class RuleSet:
    rules: tuple[SourcedRule, ...]
    """Those of policy first, then flag, session, local, project, user."""
    aliases: Mapping[str, str]
    next_expiry: str | None
    """When the first of them ends; the set is to be made anew then, and leaves out what has ended until it is."""
    _index: _Index = field(repr=False)
    _prepared: dict[tuple[Behavior, str], CommandRules] = field(default_factory=dict, repr=False, compare=False)
    _cache: dict[tuple[Behavior, str], tuple[SourcedRule, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, rules: Sequence[SourcedRule], aliases: Mapping[str, str]) -> "RuleSet":
        index: dict[tuple[Behavior, str], list[SourcedRule]] = {}
        for rule in rules:
            name = aliases.get(rule.rule.tool, rule.rule.tool)
            index.setdefault((rule.behavior, name), []).append(rule)
        ends = [rule.expires_at for rule in rules if rule.expires_at]
        fixed = {key: tuple(found) for key, found in index.items()}
        return cls(tuple(rules), dict(aliases), min(ends, default=None), fixed)

    def find_deny_rules(self, tool: str, also: Iterable[str] = ()) -> tuple[SourcedRule, ...]:
        return self._find_rules("deny", tool, also)

    def find_ask_rules(self, tool: str, also: Iterable[str] = ()) -> tuple[SourcedRule, ...]:
        return self._find_rules("ask", tool, also)

    def find_allow_rules(self, tool: str, also: Iterable[str] = ()) -> tuple[SourcedRule, ...]:
        """`also`: more names of the tool, as of its MCP server, which a name cannot be split to find."""
        return self._find_rules("allow", tool, also)

    def find_command_rules(self, behavior: Behavior, tool: str) -> CommandRules:
        """The rules of a tool that runs commands, prepared when they are first asked for."""
        rules = self._find_rules(behavior, tool, ())
        known = self._prepared.get((behavior, tool))
        if known is None or known.rules is not rules:
            known = self._prepared[behavior, tool] = CommandRules.of(behavior, rules)
        return known

    @property
    def denies_anything(self) -> bool:
        return any(behavior == "deny" for behavior, _ in self._index)

    def list_denied_tools(self) -> frozenset[str]:
        """Tools and MCP servers that are denied as a whole, which the model is not even told of."""
        whole = {rule.rule.tool for rule in self.rules if rule.behavior == "deny" and rule.rule.content is None}
        names = {self.aliases.get(tool, tool) for tool in whole}
        return frozenset(names | {tool for tool, other in COVERED_BY.items() if other in names})

    def _find_rules(self, behavior: Behavior, tool: str, also: Iterable[str]) -> tuple[SourcedRule, ...]:
        if self.next_expiry is not None or also:
            return self._collect_rules(behavior, tool, also)
        # Every call asks several times, and gets the same answer.
        known = self._cache.get((behavior, tool))
        if known is None:
            known = self._cache[behavior, tool] = self._collect_rules(behavior, tool, ())
        return known

    def _collect_rules(self, behavior: Behavior, tool: str, also: Iterable[str]) -> tuple[SourcedRule, ...]:
        name = self.aliases.get(tool, tool)
        names = dict.fromkeys((name, *([COVERED_BY[name]] if name in COVERED_BY else ()), *also))
        if name.startswith("mcp__") and behavior != "allow":
            # `mcp__a__b` may be a tool of the server `a`: enough to forbid it, not to allow it.
            names |= dict.fromkeys(key for kind, key in self._index if kind == behavior and name.startswith(f"{key}__"))
        found = [self._index.get((behavior, each), ()) for each in names]
        rules = found[0] if len(found) == 1 else tuple(rule for each in found for rule in each)
        if self.next_expiry is None or times.now() < self.next_expiry:
            return rules
        now = times.now()
        return tuple(rule for rule in rules if rule.expires_at is None or rule.expires_at > now)
