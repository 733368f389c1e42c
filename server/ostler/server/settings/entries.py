"""Parses the hooks, variables and MCP servers of a settings file: checks their shape, not yet what they do."""

from typing import Any, Final, Protocol

from ostler.protocol.patterns import compile_later
from ostler.server.hooks.events import EVENTS
from ostler.server.mcp.server_config import check_entry
from ostler.server.settings.locations import Candidate
from ostler.server.settings.types import HookEntry, McpEntry
from ostler.tools.spelling import suggest_spelling

_VARIABLE: Final = compile_later(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVER: Final = compile_later(r"[^\s()*/\\\x00-\x1f]{1,100}")


class ReportError(Protocol):
    """Reports what is wrong with the value at a path."""

    def __call__(self, message: str, *path: str | int) -> None: ...


def parse_hook_entries(given: Any, candidate: Candidate, report: ReportError) -> list[HookEntry]:
    """`{event: [{matcher, hooks: [hook]}]}`, flat."""
    found: list[HookEntry] = []
    for event, groups in _as_object(given, "hooks", report).items():
        if event not in EVENTS:
            # Another product has events that we never see; in our own file it is a mistake.
            if candidate.format == "ours":
                report(f"There is no event {event!r}{suggest_spelling(event, EVENTS)}", "hooks", event)
            continue
        if not isinstance(groups, list):
            report(f"{event} is a list of matchers with their hooks.", "hooks", event)
            continue
        for index, group in enumerate(groups):
            found += _parse_group(event, index, group, candidate, report)
    return found


def _parse_group(event: str, index: int, group: Any, candidate: Candidate, report: ReportError) -> list[HookEntry]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
        report('An entry is an object with a list of hooks: {"matcher": …, "hooks": [{…}]}.', "hooks", event, index)
        return []
    matcher = group.get("matcher")
    if matcher is not None and not isinstance(matcher, str):
        report("A matcher is a text.", "hooks", event, index, "matcher")
        return []
    return [HookEntry(event, matcher, hook, candidate.source, candidate.file) for hook in hooks]


def parse_variables(given: Any, report: ReportError) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _as_object(given, "env", report).items():
        if not _VARIABLE.fullmatch(name):
            report(f"{name!r} is no name of a variable.", "env", name)
        elif not isinstance(value, str) or "\0" in value:
            report(f"The value of {name} is a text.", "env", name)
        else:
            found[name] = value
    return found


def parse_server_entries(given: Any, key: str, candidate: Candidate, report: ReportError) -> list[McpEntry]:
    """The servers under a key of a file."""
    found: list[McpEntry] = []
    for name, entry in _as_object(given, key, report).items():
        if (wrong := check_server_entry(name, entry)) is not None:
            report(wrong, key, name)
        else:
            found.append(McpEntry(name, entry, candidate.source, candidate.file))
    return found


def check_server_entry(name: str, entry: Any) -> str | None:
    """What is wrong with an MCP server's name or entry."""
    if not _SERVER.fullmatch(name) or not name.isprintable() or "__" in name:
        # A rule about `mcp__a__b` would match a tool of one server, and all tools of another.
        return f"{name[:100]!r} is no name of a server."
    if not isinstance(entry, dict):
        return "A server is an object: { … }."
    return check_entry(entry)


def _as_object(given: Any, name: str, report: ReportError) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    report(f"{name} is an object: {{ … }}.", name)
    return {}
