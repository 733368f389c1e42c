"""The handlers of the MCP methods: list, reconnect, add, remove."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.protocol.errors import Conflict, InvalidParams
from ostler.protocol.mcp import McpAdd, McpEntryChange, McpList, McpPage, McpRef, McpRemove, McpServer, McpStatus
from ostler.protocol.methods import MCP_LIST
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.engine.session.effective_settings import collect_servers
from ostler.server.engine.session.live import LiveSession
from ostler.server.mcp.session_servers import ServerState
from ostler.server.rpc.paging import paginate_list
from ostler.server.settings import CannotWrite, McpEntry, Source
from ostler.server.settings.entries import check_server_entry
from ostler.server.settings.write import Destination, add_server, remove_server, resolve_server_destination
from ostler.tools.threads import change_in_thread

_WAIT_SECONDS: Final = 35.0
_STOPPED: Final = ServerState("stopped")
_SCOPES: Final[Mapping[Source, Literal["policy", "user", "project", "local", "session"]]] = {
    "policy": "policy",
    "user": "user",
    "project": "project",
    "local": "local",
    "session": "session",
    "flag": "session",
}


@dataclass(frozen=True, slots=True)
class McpMethods:
    engine: Engine

    async def list(self, params: McpList) -> McpPage:
        if params.session_id is not None:
            live = (await self.engine.get_actor(params.session_id)).live
            await self.engine.settings_loader.load(live)
            found = _list_of_session(live)
        else:
            places = self.engine.shared.settings.places
            settings = await self.engine.shared.settings.get(places.user_home)
            entries = collect_servers(settings, False, {})
            found = [_build_server(entries[name], _STOPPED) for name in sorted(entries)]
        page, token = paginate_list(MCP_LIST.name, params, found)
        return McpPage(servers=page, next=token)

    async def reconnect(self, params: McpRef, actor: SessionActor) -> McpServer:
        live = actor.live
        await self.engine.settings_loader.load(live)
        owner = live if live.owns_servers else live.root
        wanted = owner.wanted_servers.get(params.name)
        if wanted is None:
            names = ", ".join(sorted(owner.wanted_servers)) or "none"
            raise InvalidParams.of("name", f"is {params.name!r}, and the servers in effect are: {names}")
        owner.servers.restart(params.name, wanted)
        await owner.servers.wait_for(params.name, _WAIT_SECONDS)
        return _build_of_session(owner, owner.server_entries[params.name])

    async def add(self, params: McpAdd) -> McpEntryChange:
        if (wrong := check_server_entry(params.name, params.entry)) is not None:
            raise InvalidParams.of("entry", wrong)
        to, key = self._resolve(params)
        await self._write(lambda: add_server(to, key, params.name, params.entry))
        return McpEntryChange(name=params.name, scope=params.scope, file=to.file)

    async def remove(self, params: McpRemove) -> McpEntryChange:
        to, key = self._resolve(params)
        if not await self._write(lambda: remove_server(to, key, params.name)):
            raise InvalidParams.of("name", f"is {params.name!r}, and {to.file} has no such server")
        return McpEntryChange(name=params.name, scope=params.scope, file=to.file)

    def _resolve(self, params: McpAdd | McpRemove) -> tuple[Destination, str]:
        if params.scope != "user" and (params.cwd is None or not os.path.isabs(params.cwd)):
            raise InvalidParams.of("cwd", f"is the absolute path of a folder where the scope is {params.scope}")
        shared = self.engine.shared
        return resolve_server_destination(params.scope, params.cwd or "/", shared.settings.places, shared.umask)

    async def _write(self, work: Any) -> bool:
        try:
            changed: bool = await change_in_thread(work)
        except CannotWrite as error:
            raise Conflict(f"The entry was not written: {error}") from None
        return changed


def _list_of_session(live: LiveSession) -> list[McpServer]:
    """Those in effect, and those that wait for trust."""
    every = {**collect_servers(live.settings, True, live.record.options), **live.server_entries}
    return [_build_of_session(live, every[name]) for name in sorted(every)]


def _build_of_session(live: LiveSession, entry: McpEntry) -> McpServer:
    name = entry.name
    if live.server_entries.get(name) is None:
        return _build_server(entry, _STOPPED, status="needs_trust")
    return _build_server(entry, live.servers.states.get(name, _STOPPED), live.servers.read_log(name))


def _build_server(entry: McpEntry, state: ServerState, log: str = "", status: McpStatus | None = None) -> McpServer:
    given = entry.entry
    kind = given.get("type") or ("http" if "url" in given and "command" not in given else "stdio")
    transport: Literal["stdio", "http", "sse"] = "stdio" if kind == "stdio" else "sse" if kind == "sse" else "http"
    target = given.get("url") if transport != "stdio" else " ".join((given["command"], *(given.get("args") or ())))
    return McpServer(
        name=entry.name,
        scope=_SCOPES[entry.source],
        file=entry.file or None,
        transport=transport,
        target=str(target)[:1_000],
        status=status or state.status,
        error=state.error,
        tools=[each.tool for each in state.listing.tools],
        problems=list(state.listing.problems),
        resources=state.resources,
        prompts=state.prompts,
        protocol_version=state.protocol_version,
        log=log,
    )
