"""Who is there: clients that introduced themselves, and which sessions each of them watches."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ostler.protocol import times
from ostler.protocol.client import Client, ClientList, ClientPage, Initialize
from ostler.protocol.events import ClientData
from ostler.protocol.ids import ClientId, SessionId, new_client_id
from ostler.protocol.methods import CLIENT_LIST
from ostler.server.events.event_log import EventLog
from ostler.server.events.subscriber import Watch
from ostler.server.rpc.paging import page_position, page_token
from ostler.storage import Scope, Tx
from ostler.storage.repositories import clients
from ostler.storage.repositories.clients import ClientRecord


@dataclass(slots=True)
class _Present:
    record: ClientRecord
    since: str
    watches: list[Watch] = field(default_factory=list)

    def has_tool(self, name: str) -> bool:
        return any(tool.get("name") == name for tool in self.record.capabilities.get("tools") or ())

    def sees(self, session_id: SessionId) -> bool:
        return any(watch.roots is None or session_id in _watched(watch) for watch in self.watches)

    def shown(self) -> Client:
        return Client(
            id=self.record.id,
            name=self.record.name,
            version=self.record.version,
            kind=self.record.kind,
            capabilities=self.record.capabilities,
            attached=True,
            session_ids=sorted({one for watch in self.watches for one in _watched(watch)}),
            since=self.since,
        )


def _watched(watch: Watch) -> list[SessionId]:
    return [*(watch.roots or ()), *watch.members]


class Presence:
    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._present: dict[ClientId, _Present] = {}
        self.on_gone: list[Callable[[ClientId], None]] = []
        """Called when the last stream of a client has ended."""

    @property
    def count(self) -> int:
        return len(self._present)

    async def introduce(self, params: Initialize) -> ClientId:
        record = ClientRecord(
            new_client_id(),
            params.client.name,
            params.client.version,
            params.client.kind,
            params.capabilities.model_dump(mode="json"),
            times.now(),
        )
        await self._log.write(lambda tx: clients.put(tx.connection, record))
        return record.id

    async def known(self, client_id: str | None) -> ClientRecord | None:
        """The client that a header names; None for one that nobody introduced, who is served all the same."""
        if not client_id:
            return None
        wanted = ClientId(client_id)

        def look(connection: sqlite3.Connection) -> ClientRecord | None:
            return clients.find(connection, wanted)

        return await self._log.read(look)

    @contextmanager
    def attached(self, client: ClientRecord | None, watch: Watch) -> Iterator[None]:
        """A stream of this client is open; the others are told, and told again when it ends."""
        if client is None:
            yield
            return
        present = self._arrive(client, watch)
        try:
            yield
        finally:
            self._leave(present, watch)

    def listed(self, params: ClientList) -> ClientPage:
        wanted = params.session_id
        # After an id and not after a number: they come and go between two pages.
        after = page_position(CLIENT_LIST.name, params, params.page, (str,)) or [""]
        found = [
            self._present[client_id]
            for client_id in sorted(self._present)
            if client_id > after[0] and (wanted is None or self._present[client_id].sees(wanted))
        ]
        page = [present.shown() for present in found[: params.limit]]
        token = page_token(CLIENT_LIST.name, params, [page[-1].id]) if len(found) > len(page) else None
        return ClientPage(clients=page, next=token)

    def provider_of(self, tool: str, scope: Scope) -> ClientId | None:
        """The client that came last of those that provide a tool and watch the session."""
        found = [
            present.record.id
            for present in self._present.values()
            if present.has_tool(tool) and any(watch.covers(scope) for watch in present.watches)
        ]
        return found[-1] if found else None

    def _arrive(self, client: ClientRecord, watch: Watch) -> _Present:
        present = self._present.setdefault(client.id, _Present(client, times.now()))
        present.watches.append(watch)
        self._note_last_seen(client)
        self._tell("client.attached", watch, present.shown())
        return present

    def _leave(self, present: _Present, watch: Watch) -> None:
        present.watches = [one for one in present.watches if one is not watch]
        shown = present.shown()
        if not present.watches:
            del self._present[present.record.id]
            shown = shown.model_copy(update={"attached": False})
            self._note_last_seen(present.record)
        self._tell("client.detached", watch, shown)
        if not present.watches:
            for gone in self.on_gone:
                gone(present.record.id)

    def _tell(self, kind: str, watch: Watch, client: Client) -> None:
        """Once for each session that is watched, so that it reaches who watches the same; once for all of them."""
        data = ClientData(client=client)
        if watch.roots is None:
            self._log.say(kind, Scope(), data)
        for session_id in watch.roots or ():
            self._log.say(kind, Scope(session_id, session_id), data)
        for session_id, root_id in watch.members.items():
            self._log.say(kind, Scope(session_id, root_id), data)

    def _note_last_seen(self, record: ClientRecord) -> None:
        """Nobody waits for it, and a daemon that cannot write goes on without."""

        def note(tx: Tx) -> None:
            clients.seen(tx.connection, record.id, times.now())

        self._log.submit_quietly(note)
