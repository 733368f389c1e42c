"""What of a project would act, for the person who is asked to trust it, and whether somebody has trusted it.

The local files count as the project's: they are meant to be a person's own and not committed, but they lie in the
project, and nothing keeps a repository from bringing one along.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ostler.protocol import times
from ostler.protocol.ids import ClientId
from ostler.protocol.session import Mode
from ostler.server.settings.types import HookEntry, McpEntry, ProjectActs, Settings, Source, SourcedRule, canonical
from ostler.storage.repositories import trust
from ostler.storage.repositories.trust import TrustRecord
from ostler.tools.fs.paths import inside
from ostler.tools.permissions import PathPattern, RealPaths, is_whole

NEED_TRUST: Final[frozenset[Source]] = frozenset({"project", "local"})
_SHOWN: Final = 2_000


def project_acts(
    rules: Iterable[SourcedRule], hooks: Iterable[HookEntry], servers: Iterable[McpEntry], local_mode: Mode | None
) -> ProjectActs:
    real = RealPaths()
    acts: list[tuple[str, Any]] = []
    for rule in rules:
        if rule.source in NEED_TRUST and rule.behavior == "allow" and may_allow(rule, real):
            # The root too: it says what `/x` means.
            fact: list[Any] = ["allow", rule.source, rule.rule.text, rule.root, rule.expires_at]
            acts.append((_allows(rule.rule.text), fact))
    for hook in hooks:
        if hook.source in NEED_TRUST:
            matcher = f" ({hook.matcher})" if hook.matcher else ""
            fact = ["hook", hook.event, hook.matcher, hook.hook]
            acts.append((f"hook {hook.event}{matcher}: {_hook(hook.hook)}", fact))
    for server in servers:
        if server.source in NEED_TRUST:
            acts.append((f"MCP server {server.name}: {_server(server.entry)}", ["mcp", server.name, server.entry]))
    if local_mode:
        acts.append((f"mode {local_mode}", ["mode", local_mode]))
    return ProjectActs(tuple(_line(words) for words, _ in acts), _digest([fact for _, fact in acts]))


def allowing_line(rule: str) -> str:
    """How people are told of an allow rule."""
    return _line(_allows(rule))


def _allows(rule: str) -> str:
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
    return any(inside(base or "/", folder) for base in pattern.bases)


def _hook(hook: Mapping[str, Any]) -> str:
    """What it does, in one word where that is all of it."""
    match dict(hook):
        case {"type": "command", "command": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
        case {"type": "http", "url": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
        case {"type": "prompt", "prompt": str(what), **rest} if not rest.keys() - {"timeout"}:
            return what
    return canonical(hook)


def _server(entry: Mapping[str, Any]) -> str:
    """A harmless command must not stand in front of variables or headers that nobody sees."""
    match dict(entry):
        case {"command": str(command), **rest} if not rest.keys() - {"type", "args"}:
            return " ".join([command, *map(str, _list(rest.get("args")))])
        case {"url": str(url), **rest} if not rest.keys() - {"type"}:
            return url
    return canonical(entry)


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _line(words: str) -> str:
    """One line, whatever stands in the file, and nothing that could hide a part of it."""
    shown = "".join(character if character.isprintable() else "�" for character in words)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown) - _SHOWN} more characters)"


def _digest(facts: Sequence[Any]) -> str:
    return hashlib.sha256("\n".join(sorted(map(canonical, facts))).encode()).hexdigest()


def is_trusted(connection: sqlite3.Connection, settings: Settings) -> bool:
    """Nothing to trust, or just that was trusted."""
    acts = settings.project_acts
    if not acts.lines:
        return True
    known = trust.find(connection, settings.folder)
    return known is not None and known.digest == acts.digest


def brings_only(settings: Settings, before: Settings, rule: str | None) -> bool:
    """Whether the folder brings nothing more than before but this rule: then whoever wrote it trusts it still."""
    added = set(settings.project_acts.lines) - set(before.project_acts.lines)
    return added <= ({allowing_line(rule)} if rule is not None else set())


def trusting(settings: Settings, by: ClientId | None) -> TrustRecord:
    return TrustRecord(settings.folder, settings.project_acts.digest, times.now(), by)
