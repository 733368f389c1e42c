"""Presence of clients: which are attached with an event stream, and which sessions each of them watches.

It is behind an interface: one daemon knows all streams itself, several would have to tell each other.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ostler.protocol import times
from ostler.protocol.client import Client, ClientList, ClientPage, Initialize
from ostler.protocol.events import ClientData
from ostler.protocol.ids import ClientId, SessionId, new_client_id
from ostler.protocol.methods import CLIENT_LIST
from ostler.server.events.event_log import EventLog
from ostler.server.events.subscriber import SessionFilter
from ostler.server.rpc.paging import make_page_token, parse_page_token
from ostler.storage import Scope, Snapshot, Tx
from ostler.storage.repositories.clients import ClientRecord


@dataclass(slots=True)
class _AttachedClient:
    record: ClientRecord
    since: str
    filters: list[SessionFilter] = field(default_factory=list)

    def has_tool(self, name: str) -> bool:
        return any(tool.get("name") == name for tool in self.record.capabilities.get("tools") or ())

    def sees(self, session_id: SessionId) -> bool:
        return any(one.roots is None or session_id in _list_sessions(one) for one in self.filters)

    def to_client(self) -> Client:
        return Client(
            id=self.record.id,
            name=self.record.name,
            version=self.record.version,
            kind=self.record.kind,
            capabilities=self.record.capabilities,
            attached=True,
            session_ids=sorted({one for session_filter in self.filters for one in _list_sessions(session_filter)}),
            since=self.since,
        )


def _list_sessions(session_filter: SessionFilter) -> list[SessionId]:
    return [*(session_filter.roots or ()), *session_filter.members]


class Presence(Protocol):
    on_gone: list[Callable[[ClientId], None]]
    """Called when the last stream of a client has ended."""

    @property
    def count(self) -> int:
        """Clients that are attached."""
        ...

    async def introduce(self, params: Initialize) -> ClientId:
        """Store a client under a new id."""
        ...

    async def find_client(self, client_id: str | None) -> ClientRecord | None:
        """The client that the `Ostler-Client` header names; None for an unknown one, which is served all the same."""
        ...

    def attach(self, client: ClientRecord | None, session_filter: SessionFilter) -> AbstractContextManager[None]:
        """Record an open stream of this client; other clients get an event when it opens and when it ends."""
        ...

    def list_clients(self, params: ClientList) -> ClientPage:
        """The attached clients, by their ids."""
        ...

    def find_tool_provider(self, tool: str, scope: Scope) -> ClientId | None:
        """The client, of those that provide a tool and watch the session, that attached last."""
        ...

    def has_answering_client(self, session_id: SessionId) -> bool:
        """Whether a client watches the session in which a person can answer: it shows asks."""
        ...


class LocalPresence:
    """The clients that are attached to this daemon."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._attached: dict[ClientId, _AttachedClient] = {}
        self.on_gone: list[Callable[[ClientId], None]] = []

    @property
    def count(self) -> int:
        return len(self._attached)

    async def introduce(self, params: Initialize) -> ClientId:
        record = ClientRecord(
            new_client_id(),
            params.client.name,
            params.client.version,
            params.client.kind,
            params.capabilities.model_dump(mode="json"),
            times.now(),
        )
        await self._log.write(lambda tx: tx.clients.put(record))
        return record.id

    async def find_client(self, client_id: str | None) -> ClientRecord | None:
        if not client_id:
            return None
        wanted = ClientId(client_id)

        def look(snapshot: Snapshot) -> ClientRecord | None:
            return snapshot.clients.find(wanted)

        return await self._log.read(look)

    @contextmanager
    def attach(self, client: ClientRecord | None, session_filter: SessionFilter) -> Iterator[None]:
        if client is None:
            yield
            return
        attached = self._add_stream(client, session_filter)
        try:
            yield
        finally:
            self._remove_stream(attached, session_filter)

    def list_clients(self, params: ClientList) -> ClientPage:
        wanted = params.session_id
        # After an id and not after an index: clients come and go between two pages.
        after = parse_page_token(CLIENT_LIST.name, params, params.page, (str,)) or [""]
        found = [
            self._attached[client_id]
            for client_id in sorted(self._attached)
            if client_id > after[0] and (wanted is None or self._attached[client_id].sees(wanted))
        ]
        page = [attached.to_client() for attached in found[: params.limit]]
        token = make_page_token(CLIENT_LIST.name, params, [page[-1].id]) if len(found) > len(page) else None
        return ClientPage(clients=page, next=token)

    def find_tool_provider(self, tool: str, scope: Scope) -> ClientId | None:
        found = [
            attached.record.id
            for attached in self._attached.values()
            if attached.has_tool(tool) and any(session_filter.covers(scope) for session_filter in attached.filters)
        ]
        return found[-1] if found else None

    def has_answering_client(self, session_id: SessionId) -> bool:
        watching = (each.record for each in self._attached.values() if each.sees(session_id))
        return any(record.capabilities.get("answers") for record in watching)

    def _add_stream(self, client: ClientRecord, session_filter: SessionFilter) -> _AttachedClient:
        attached = self._attached.setdefault(client.id, _AttachedClient(client, times.now()))
        attached.filters.append(session_filter)
        self._note_last_seen(client)
        self._publish("client.attached", session_filter, attached.to_client())
        return attached

    def _remove_stream(self, attached: _AttachedClient, session_filter: SessionFilter) -> None:
        attached.filters = [one for one in attached.filters if one is not session_filter]
        client = attached.to_client()
        if not attached.filters:
            del self._attached[attached.record.id]
            client = client.model_copy(update={"attached": False})
            self._note_last_seen(attached.record)
        self._publish("client.detached", session_filter, client)
        if not attached.filters:
            for on_gone in self.on_gone:
                on_gone(attached.record.id)

    def _publish(self, kind: str, session_filter: SessionFilter, client: Client) -> None:
        """Publish it once for each watched session, so that it reaches whoever watches the same one.

        A client that watches everything is published once, without a session.
        """
        data = ClientData(client=client)
        if session_filter.roots is None:
            self._log.publish_transient(kind, Scope(), data)
        for session_id in session_filter.roots or ():
            self._log.publish_transient(kind, Scope(session_id, session_id), data)
        for session_id, root_id in session_filter.members.items():
            self._log.publish_transient(kind, Scope(session_id, root_id), data)

    def _note_last_seen(self, record: ClientRecord) -> None:
        """Store when a client was last seen; nobody waits for it, and where it cannot be written nothing happens."""

        def note(tx: Tx) -> None:
            tx.clients.mark_seen(record.id, times.now())

        self._log.submit_quietly(note)
