"""The effective settings of one session: its mode, its rules and its MCP servers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ostler.protocol.errors import ModeForbidden
from ostler.protocol.session import Mode
from ostler.server.settings import (
    POLICY,
    McpEntry,
    Origin,
    PolicyLimits,
    RuleSet,
    Settings,
    SkillEntry,
    Source,
    SourcedRule,
    parse_rules,
    resolve_rules,
    resolve_servers,
)
from ostler.server.settings.rule_lists import compile_rule
from ostler.server.worktrees.worktree import Worktree
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.fs.paths import is_inside
from ostler.tools.permissions import Rule

FLAG_RULES: Final = "flag_rules"
"""The option that says with which of its rules a session was started; rules that are added later have the source
`session`."""
GRANTS: Final = "grants"
"""The option that holds what commands may do since a plan was approved, in words."""
SKILL_LIST: Final = "skill_list"
"""The key in the session's state under which the list of skills is, as the model was first told of it."""
SKILLS_OPTION: Final = "skills"
"""The option of an agent that works on a skill: its name, whose rules hold for it."""
_MODE_BEFORE: Final = "mode_before_plan"
_SESSION_SOURCES: Final[tuple[Source, Source]] = ("flag", "session")
RuleLists = Mapping[str, Sequence[str]]


def resolve_mode(settings: Settings, wanted: Mode, *, allow_bypass: bool) -> Mode:
    """The session's mode, unless the managed policy sets another, or bypass is not allowed any more."""
    mode = settings.frozen_mode or wanted
    forbidden = mode == "bypassPermissions" and (not allow_bypass or settings.bypass_disabled)
    return settings.limits.limit_mode("default" if forbidden else mode)


def check_mode(mode: Mode, limits: PolicyLimits, config_file: Path, *, allow_bypass: bool) -> None:
    """Refuse a mode that a client asks for and may not have here."""
    if mode == "bypassPermissions" and not allow_bypass:
        raise ModeForbidden(
            f"The mode bypassPermissions is off. Set `[permissions] allow_bypass = true` in {config_file} to allow it.",
            mode=mode,
        )
    check_policy_mode(mode, limits)


def check_policy_mode(mode: Mode, limits: PolicyLimits) -> None:
    if mode in limits.forbidden_modes:
        raise ModeForbidden(f"The policy of this machine ({POLICY}) forbids the mode {mode}.", mode=mode)


def enter_mode(record: SessionRecord, mode: Mode) -> SessionRecord:
    """The record with another mode. While the session plans it keeps the one before, to which approval returns."""
    options = {name: value for name, value in record.options.items() if name != _MODE_BEFORE}
    if mode == "plan":
        options[_MODE_BEFORE] = record.options.get(_MODE_BEFORE, "default") if record.mode == "plan" else record.mode
    return replace(record, mode=mode, options=options)


def leave_plan_mode(record: SessionRecord, mode: Mode | None, granted: Sequence[str]) -> SessionRecord:
    """The record after a plan was approved, with what was granted along with it."""
    # Where it plans no more, a person has changed the mode meanwhile, or this was stored already.
    before: Mode = record.options.get(_MODE_BEFORE, "default") if record.mode == "plan" else record.mode
    changed = enter_mode(record, mode or before)
    if not granted:
        return changed
    grants = dict.fromkeys((*changed.options.get(GRANTS, ()), *granted))
    return replace(changed, options={**changed.options, GRANTS: list(grants)})


def build_rule_set(
    settings: Settings,
    trusted: bool,
    options: Mapping[str, Any],
    aliases: Mapping[str, str],
    worktree: Worktree | None = None,
    skills: Sequence[SkillEntry] = (),
) -> RuleSet:
    """The rules that are in effect in a session, with its own and those of the skills that it uses."""
    own_lists: RuleLists = options.get("rules") or {}
    flags: RuleLists = options.get(FLAG_RULES) or {}
    started_with = {name: [text for text in texts if text in flags.get(name, ())] for name, texts in own_lists.items()}
    later = {name: [text for text in texts if text not in flags.get(name, ())] for name, texts in own_lists.items()}
    expires = options.get("rule_expires") or {}
    flag, session = (
        Origin(source, None, settings.folder, settings.folder, settings.home) for source in _SESSION_SOURCES
    )
    own = (*parse_rules(started_with, flag, expires), *parse_rules(later, session, expires))
    of_skills = (
        rule
        for skill in skills
        for rule in parse_rules(
            {"allow": skill.allowed}, Origin(skill.source, skill.file, skill.root, settings.folder, settings.home)
        )
    )
    found = resolve_rules(settings, trusted, (*own, *of_skills), aliases=aliases)
    return found if worktree is None else _move_rules(found, worktree)


def build_single_rule(
    settings: Settings, rule: Rule, aliases: Mapping[str, str], worktree: Worktree | None = None
) -> RuleSet:
    """A rule alone, as one that asks: of which calls it speaks."""
    origin = Origin("session", None, settings.folder, settings.folder, settings.home)
    found = RuleSet.of([compile_rule(rule, "ask", origin)], aliases)
    return found if worktree is None else _move_rules(found, worktree)


def _move_rules(rules: RuleSet, worktree: Worktree) -> RuleSet:
    """The rules for a session in a worktree: it has the same files at other places, and nothing widens.

    What forbids a file of the main work tree forbids it in the worktree, too; what allows one allows it there instead.
    """
    return RuleSet.of([_move_rule(rule, worktree) for rule in rules.rules], rules.aliases)


def _move_rule(rule: SourcedRule, worktree: Worktree) -> SourcedRule:
    pattern = rule.pattern
    if pattern is None:
        return rule
    main, place = ((path.lower() if pattern.folds else path) for path in (worktree.main, worktree.path))
    moved = {
        base: place + base.removeprefix(main)
        for base in pattern.bases
        if is_inside(base, main) and not is_inside(base, place)
    }
    kept = (base for base in pattern.bases if rule.behavior != "allow" or base not in moved)
    return replace(rule, pattern=replace(pattern, bases=(*kept, *moved.values()))) if moved else rule


def collect_servers(settings: Settings, trusted: bool, options: Mapping[str, Any]) -> Mapping[str, McpEntry]:
    """The MCP servers that a session has, by name."""
    own_entries: Mapping[str, Mapping[str, Any]] = options.get("mcp_servers") or {}
    own = (McpEntry(name, entry, "session", "") for name, entry in own_entries.items())
    return resolve_servers(settings, trusted, own)
