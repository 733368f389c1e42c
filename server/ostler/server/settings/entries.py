"""Hooks, variables and MCP servers as they stand in a file: their shape is checked, what they do is read elsewhere."""

import re
from typing import Any, Final, Protocol

from ostler.server.hooks.events import EVENTS
from ostler.server.mcp.server_config import flaw
from ostler.server.settings.did_you_mean import did_you_mean
from ostler.server.settings.locations import Candidate
from ostler.server.settings.types import HookEntry, McpEntry

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVER: Final = re.compile(r"[^\s()*/\\\x00-\x1f]{1,100}")


class Fault(Protocol):
    """Notes what is wrong with the value at the end of a way."""

    def __call__(self, message: str, *way: str | int) -> None: ...


def hooks_of(given: Any, candidate: Candidate, fault: Fault) -> list[HookEntry]:
    """`{event: [{matcher, hooks: [hook]}]}`, flat."""
    found: list[HookEntry] = []
    for event, groups in _object(given, "hooks", fault).items():
        if event not in EVENTS:
            # Another product has events that we never see; in our own file it is a slip.
            if candidate.format == "ours":
                fault(f"There is no event {event!r}{did_you_mean(event, EVENTS)}", "hooks", event)
            continue
        if not isinstance(groups, list):
            fault(f"{event} is a list of matchers with their hooks.", "hooks", event)
            continue
        for index, group in enumerate(groups):
            found += _group(event, index, group, candidate, fault)
    return found


def _group(event: str, index: int, group: Any, candidate: Candidate, fault: Fault) -> list[HookEntry]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
        fault('An entry is an object with a list of hooks: {"matcher": …, "hooks": [{…}]}.', "hooks", event, index)
        return []
    matcher = group.get("matcher")
    if matcher is not None and not isinstance(matcher, str):
        fault("A matcher is a text.", "hooks", event, index, "matcher")
        return []
    return [HookEntry(event, matcher, hook, candidate.source, candidate.file) for hook in hooks]


def variables_of(given: Any, fault: Fault) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _object(given, "env", fault).items():
        if not _VARIABLE.fullmatch(name):
            fault(f"{name!r} is no name of a variable.", "env", name)
        elif not isinstance(value, str) or "\0" in value:
            fault(f"The value of {name} is a text.", "env", name)
        else:
            found[name] = value
    return found


def servers_of(given: Any, key: str, candidate: Candidate, fault: Fault) -> list[McpEntry]:
    """What stands under a key of a file."""
    found: list[McpEntry] = []
    for name, entry in _object(given, key, fault).items():
        if (wrong := server_flaw(name, entry)) is not None:
            fault(wrong, key, name)
        else:
            found.append(McpEntry(name, entry, candidate.source, candidate.file))
    return found


def server_flaw(name: str, entry: Any) -> str | None:
    """What is wrong with an MCP server's name or entry."""
    if not _SERVER.fullmatch(name) or not name.isprintable() or "__" in name:
        # A rule about `mcp__a__b` would speak of a tool of one server, and of all of another.
        return f"{name[:100]!r} is no name of a server."
    if not isinstance(entry, dict):
        return "A server is an object: { … }."
    return flaw(entry)


def _object(given: Any, name: str, fault: Fault) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    fault(f"{name} is an object: {{ … }}.", name)
    return {}
