"""What a project's settings would put into effect, for the person who is asked for trust, and who has given it.

The local files count as the project's: they are meant to be a person's own and not committed, but they lie in the
project, and nothing keeps a repository from bringing one along.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ostler.protocol import times
from ostler.protocol.ids import ClientId
from ostler.protocol.session import Mode
from ostler.server.settings.trusted_files import find_trusted_files, list_guarded_paths
from ostler.server.settings.types import (
    NEED_TRUST,
    AgentEntry,
    HookEntry,
    McpEntry,
    ProjectEffects,
    Settings,
    SkillEntry,
    SourcedRule,
    to_canonical_json,
)
from ostler.storage import Snapshot
from ostler.storage.repositories.trust import TrustRecord
from ostler.tools.fs.paths import is_inside
from ostler.tools.permissions import PathPattern, RealPathCache, is_whole

_MAX_LINE_CHARS: Final = 2_000


def collect_project_effects(
    rules: Iterable[SourcedRule],
    hooks: Sequence[HookEntry],
    servers: Sequence[McpEntry],
    agents: Sequence[AgentEntry],
    skills: Sequence[SkillEntry],
    local_mode: Mode | None,
    folder: str,
    home: str,
) -> ProjectEffects:
    """What of a project would take effect, with the content of every script that it names. Blocks."""
    real = RealPathCache()
    effects: list[tuple[str, Any]] = []
    for rule in rules:
        if rule.source in NEED_TRUST and rule.behavior == "allow" and may_allow(rule, real):
            # The root too: it says what `/x` means.
            fact: list[Any] = ["allow", rule.source, rule.rule.text, rule.root, rule.expires_at]
            effects.append((_describe_allow(rule.rule.text), fact))
    for hook in hooks:
        if hook.source in NEED_TRUST:
            matcher = f" ({hook.matcher})" if hook.matcher else ""
            fact = ["hook", hook.event, hook.matcher, hook.hook]
            effects.append((f"hook {hook.event}{matcher}: {_describe_hook(hook.hook)}", fact))
    for server in servers:
        if server.source in NEED_TRUST:
            effects.append(
                (f"MCP server {server.name}: {_describe_server(server.entry)}", ["mcp", server.name, server.entry])
            )
    for agent in agents:
        if agent.source in NEED_TRUST:
            fact = ["agent", agent.kind.name, agent.digest]
            effects.append((f"agent {agent.kind.name}: {agent.kind.description}", fact))
    for skill in skills:
        # One without tools is words, as an instruction file is.
        if skill.source in NEED_TRUST and skill.allowed:
            allows = ", ".join(skill.allowed)
            effects.append((f"skill {skill.name} allows {allows}", ["skill", skill.name, skill.digest, skill.root]))
    if local_mode:
        effects.append((f"mode {local_mode}", ["mode", local_mode]))
    named = find_trusted_files(hooks, servers, folder, home)
    # What is missing is no fact: it becomes one when it comes.
    facts = [fact for _, fact in effects] + [["file", path, digest] for path, digest in named.files if digest]
    lines = tuple(_format_line(words) for words, _ in effects)
    return ProjectEffects(lines, _compute_digest(facts), named.files, list_guarded_paths(named), named.looked)


def format_allow_rule(rule: str) -> str:
    """How an allow rule is shown to people."""
    return _format_line(_describe_allow(rule))


def _describe_allow(rule: str) -> str:
    return f"allows {rule}"


def may_allow(rule: SourcedRule, real: Callable[[str], str]) -> bool:
    """Of a committed file: never a whole tool, nor what lies outside of the project, however trusted.

    A local file may allow both once it is trusted: that is where a person's remembered answers are written.
    """
    if rule.source != "project":
        return True
    if is_whole(rule.rule.tool, rule.rule.content):
        return False
    return rule.pattern is None or _starts_inside(rule.pattern, real(rule.root))


def _starts_inside(pattern: PathPattern, root: str) -> bool:
    """By one of its bases: they are spellings of the same folder."""
    folder = root.lower() if pattern.folds else root
    return any(is_inside(base or "/", folder) for base in pattern.bases)


def _describe_hook(hook: Mapping[str, Any]) -> str:
    """Its command, address or question, where that is all of it; else the whole entry."""
    match dict(hook):
        case {"type": "command", "command": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
        case {"type": "http", "url": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
        case {"type": "prompt", "prompt": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
    return to_canonical_json(hook)


def _describe_server(entry: Mapping[str, Any]) -> str:
    """Its command or address, where that is all of it: a harmless command must not hide variables or headers."""
    match dict(entry):
        case {"command": str(command), **rest} if not rest.keys() - {"type", "args"}:
            return " ".join([command, *map(str, _as_list(rest.get("args")))])
        case {"url": str(url), **rest} if not rest.keys() - {"type"}:
            return url
    return to_canonical_json(entry)


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _format_line(words: str) -> str:
    """One line, whatever stands in the file, and nothing that could hide a part of it."""
    shown = "".join(character if character.isprintable() else "�" for character in words)
    return (
        shown
        if len(shown) <= _MAX_LINE_CHARS
        else f"{shown[:_MAX_LINE_CHARS]}… ({len(shown) - _MAX_LINE_CHARS} more characters)"
    )


def _compute_digest(facts: Sequence[Any]) -> str:
    return hashlib.sha256("\n".join(sorted(map(to_canonical_json, facts))).encode()).hexdigest()


def is_trusted(snapshot: Snapshot, settings: Settings) -> bool:
    """Whether there is nothing to trust, or exactly this was trusted."""
    effects = settings.project_effects
    if not effects.lines:
        return True
    known = snapshot.trust.find(settings.folder)
    return known is not None and known.digest == effects.digest


def adds_only(settings: Settings, before: Settings, rule: str | None) -> bool:
    """Whether the project has nothing new to trust but this rule: then the trust of whoever wrote it goes on."""
    if settings.project_effects.files != before.project_effects.files:
        return False
    added = set(settings.project_effects.lines) - set(before.project_effects.lines)
    return added <= ({format_allow_rule(rule)} if rule is not None else set())


def build_trust_record(settings: Settings, by: ClientId | None) -> TrustRecord:
    return TrustRecord(settings.folder, settings.project_effects.digest, times.now(), by)
