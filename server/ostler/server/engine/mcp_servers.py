"""Which MCP servers a session has, and what they are started with."""

from ostler.server.engine.session.effective_settings import servers_of_session
from ostler.server.engine.session.shared import Rooms
from ostler.server.events.event_log import EventLog
from ostler.server.mcp.connect import Site
from ostler.server.mcp.connection import NotThere
from ostler.server.mcp.connections import Find, Want
from ostler.server.mcp.server_config import BadEntry, server_of
from ostler.server.settings.trust import is_trusted
from ostler.storage.repositories import sessions
from ostler.tools.process.environment import command_environment


def finder(log: EventLog, rooms: Rooms) -> Find:
    """Looks at the session's row and files each time: it need not be in memory, and what they say counts at once."""

    async def find(want: Want) -> Site:
        record = await log.read(lambda connection: sessions.find(connection, want.session_id))
        if record is None:
            raise NotThere("Its session is gone.")
        settings = await rooms.settings.of(record.cwd)
        trusted = await log.read(lambda connection: is_trusted(connection, settings))
        entry = servers_of_session(settings, trusted, record.options).get(want.server)
        if entry is None:
            raise NotThere(f"The session has no MCP server {want.server!r} any more.")
        if entry.digest != want.digest:
            raise NotThere(f"The MCP server {want.server!r} is another one than when it was allowed. Ask again.")
        own = {**settings.env, **(record.options.get("env") or {})}
        environment = command_environment(own, "")
        try:
            server = server_of(entry.entry, environment)
        except BadEntry as error:
            raise NotThere(f"The entry of the MCP server {want.server!r} cannot be used. {error}") from None
        return Site(server, record.cwd, environment, rooms.umask)

    return find
