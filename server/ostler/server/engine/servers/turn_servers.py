"""The MCP servers at the beginning of a turn: started, waited for a moment, and announced where they come later."""

from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final

from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.reminders import wrap_note

_TOLD: Final = "servers_told"
"""The key in the session's state: which tools of each server the model was told of, as a digest."""
_ATTENDED_WAIT_MS: Final = 500
_HEADLESS_WAIT_MS: Final = 5_000
_SHOWN_TOOLS: Final = 50


async def start_servers(session: LiveSession, wait_ms: int | None) -> None:
    """Start those that the turn may use, and wait a moment for those that it is the first to use."""
    if not session.owns_servers:
        return
    session.servers.update(session.wanted_servers)
    if wait_ms is None:
        attended = session.shared.has_answering_client(session.record.root_id)
        wait_ms = _ATTENDED_WAIT_MS if attended else _HEADLESS_WAIT_MS
    await session.servers.wait_until_settled(wait_ms / 1000)


def must_wait_for_servers(session: LiveSession) -> bool:
    """Whether a turn that begins now would wait for a server."""
    return session.owns_servers and session.servers.has_unsettled(session.wanted_servers)


def describe_servers(session: LiveSession, hidden: Collection[str] = ()) -> tuple[list[str], dict[str, Any]]:
    """Notes for the model about tools that came or went, and the session state to store with them.

    What is in the session's first prompt needs no note; `hidden` are tools that are left out of it.
    """
    tools: dict[str, list[str]] = {}
    for tool in session.build_toolset().tools:
        if tool.on_server is not None:
            tools.setdefault(tool.on_server[0], []).append(tool.name)
    now = {server: sha256("\0".join(names).encode()).hexdigest()[:8] for server, names in tools.items()}
    before: dict[str, str] | None = session.state.get(_TOLD)
    if before is None and not now:
        return [], {}
    is_first = session.state.get(_TOLD) is None and len(session.history) <= 1
    known = before or {}
    came = [
        server
        for server in tools
        if known.get(server) != now[server] and not (is_first and not set(tools[server]) & set(hidden))
    ]
    gone = [server for server in known if server not in tools]
    lines = [f"- {server}: {_list_names(tools[server])}" for server in came]
    lines += [f"- {server} is no longer there, nor are its tools." for server in gone]
    finder = next((tool.name for tool in session.build_toolset().tools if tool.finds_tools), None)
    if finder is not None and any(name in hidden for server in came for name in tools[server]):
        lines.append(f"{finder} loads those that you were not given.")
    notes = [wrap_note("\n".join(["The tools of these MCP servers have changed:", *lines]))] if lines else []
    return notes, {_TOLD: now} if now != before else {}


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN_TOOLS} more" if len(names) > _SHOWN_TOOLS else ""
    return f"{', '.join(names[:_SHOWN_TOOLS])}{more}"
