"""Finds the MCP servers of a session, and what they are started with."""

from typing import TYPE_CHECKING

from ostler.server.engine.session.agent_facts import find_settings_folder
from ostler.server.engine.session.effective_settings import collect_servers
from ostler.server.engine.session.shared import SharedServices
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connection import NoSuchServer
from ostler.server.mcp.connections import FindServer, ServerKey
from ostler.server.mcp.server_config import BadEntry, parse_server
from ostler.server.settings.trust import is_trusted
from ostler.tools.process.environment import build_command_environment

if TYPE_CHECKING:
    from ostler.server.mcp.connect import ResolvedServer


def build_finder(log: EventLog, shared: SharedServices) -> FindServer:
    """A function that finds a server; it reads the row and settings each time, so the session need not be in memory."""

    async def find(want: ServerKey) -> "ResolvedServer":
        # Imported here, so that the daemon starts faster.
        from ostler.server.mcp.connect import ResolvedServer  # noqa: PLC0415

        record = await log.read(lambda snapshot: snapshot.sessions.find(want.session_id))
        if record is None:
            raise NoSuchServer("Its session is gone.")
        settings = await shared.settings.get(find_settings_folder(record))
        trusted = await log.read(lambda snapshot: is_trusted(snapshot, settings))
        entry = collect_servers(settings, trusted, record.options).get(want.server)
        if entry is None:
            raise NoSuchServer(f"The session has no MCP server {want.server!r} any more.")
        if entry.digest != want.digest:
            raise NoSuchServer(f"The MCP server {want.server!r} is another one than when it was allowed. Ask again.")
        own = {**settings.env, **(record.options.get("env") or {})}
        environment = build_command_environment(own, "")
        try:
            server = parse_server(entry.entry, environment)
        except BadEntry as error:
            raise NoSuchServer(f"The entry of the MCP server {want.server!r} cannot be used. {error}") from None
        return ResolvedServer(server, record.cwd, environment, shared.umask)

    return find
