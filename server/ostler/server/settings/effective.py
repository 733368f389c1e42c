"""Which rules, hooks, servers and mode are in effect, given whether a person trusted the project."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ostler.protocol import times
from ostler.protocol.session import Mode
from ostler.server.settings.rule_set import RuleSet
from ostler.server.settings.trust import may_allow
from ostler.server.settings.types import NEED_TRUST, HookEntry, McpEntry, Settings, SkillEntry, Source, SourcedRule
from ostler.tools.permissions import RealPathCache
from ostler.tools.services import AgentKind

_RULE_PRECEDENCE: Final[tuple[Source, ...]] = ("policy", "flag", "session", "local", "project", "user")
_SERVER_PRECEDENCE: Final[tuple[Source, ...]] = ("policy", "session", "user", "local", "project")


def resolve_rules(
    settings: Settings,
    trusted: bool,
    session_rules: Iterable[SourcedRule] = (),
    flag_rules: Iterable[SourcedRule] = (),
    *,
    aliases: Mapping[str, str] | None = None,
) -> RuleSet:
    """The rules in effect: those that forbid always, those that allow as trust, policy and expiry let them.

    `aliases`: old names of tools and what they are called now.
    """
    now, real = times.now(), RealPathCache()
    every = [*settings.rules, *session_rules, *flag_rules]
    counting = [rule for rule in every if not _is_expired(rule, now) and _is_in_force(rule, settings, trusted, real)]
    counting.sort(key=lambda rule: _RULE_PRECEDENCE.index(rule.source))
    return RuleSet.of(counting, aliases or {})


def resolve_default_mode(settings: Settings, trusted: bool) -> Mode | None:
    """What a session starts with that was given no mode; None where no file says."""
    return settings.frozen_mode or (settings.local_mode if trusted else None) or settings.mode


def resolve_hooks(settings: Settings, trusted: bool) -> tuple[HookEntry, ...]:
    return tuple(hook for hook in settings.hooks if trusted or hook.source not in NEED_TRUST)


def resolve_servers(settings: Settings, trusted: bool, own: Iterable[McpEntry] = ()) -> Mapping[str, McpEntry]:
    """By name, with those of the session itself.

    A project never takes the place of a server that the person named, to which their own rules refer.
    """
    found: dict[str, McpEntry] = {}
    every = (*settings.mcp_servers, *own)
    for source in _SERVER_PRECEDENCE:
        for server in every:
            if server.source == source and (trusted or source not in NEED_TRUST):
                found.setdefault(server.name, server)
    return found


def resolve_agents(settings: Settings, trusted: bool) -> tuple[AgentKind, ...]:
    """The kinds of agents from files: of equal names the project's, and of one place that of `.ostler`."""
    found: dict[str, AgentKind] = {}
    for source in ("project", "user"):
        for agent in settings.agents:
            if agent.source == source and (trusted or source not in NEED_TRUST):
                found.setdefault(agent.kind.name, agent.kind)
    return tuple(found[name] for name in sorted(found))


def resolve_skills(settings: Settings, trusted: bool, nested: Sequence[SkillEntry] = ()) -> Mapping[str, SkillEntry]:
    """The skills by name: of equal names the project's, of one source the first, and `nested` ones last."""
    found: dict[str, SkillEntry] = {}
    for source in ("project", "user"):
        for skill in settings.skills:
            if skill.source == source and (trusted or source not in NEED_TRUST):
                found.setdefault(skill.name, skill)
    for skill in nested if trusted else ():
        found.setdefault(skill.name, skill)
    return {name: found[name] for name in sorted(found)}


def _is_in_force(rule: SourcedRule, settings: Settings, trusted: bool, real: RealPathCache) -> bool:
    if rule.behavior != "allow":
        return True
    if settings.forbid_other_allow_rules and rule.source != "policy":
        return False
    return may_allow(rule, real) and (trusted or rule.source not in NEED_TRUST)


def _is_expired(rule: SourcedRule, now: str) -> bool:
    return rule.expires_at is not None and rule.expires_at <= now
