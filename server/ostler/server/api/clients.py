"""The handlers of the client methods: list, respond."""

from dataclasses import dataclass

from ostler.protocol.client import ClientList, ClientPage, ClientRespond, ClientResponded
from ostler.server.clients.client_tools import ClientTools
from ostler.server.clients.presence import Presence
from ostler.server.events.event_log import EventLog
from ostler.storage.repositories.clients import ClientRecord


@dataclass(frozen=True, slots=True)
class ClientMethods:
    log: EventLog
    presence: Presence
    tools: ClientTools

    async def list(self, params: ClientList) -> ClientPage:
        if params.session_id is not None:
            wanted = params.session_id
            await self.log.read(lambda snapshot: snapshot.sessions.get(wanted))
        return self.presence.list_clients(params)

    async def respond(self, params: ClientRespond, client: ClientRecord | None) -> ClientResponded:
        return self.tools.respond(params, client.id if client else None)
