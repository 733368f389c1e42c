"""The trust methods: list, grant, revoke."""

import asyncio
import os
import sqlite3
from dataclasses import dataclass, replace
from typing import Final

import anyio.to_thread

from ostler.protocol.errors import BadFolder, InvalidParams
from ostler.protocol.ids import ClientId, SessionId
from ostler.protocol.methods import TRUST_LIST
from ostler.protocol.trust import Trust, TrustFor, TrustList, TrustPage
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import tell_change
from ostler.server.rpc.paging import page_position, page_token
from ostler.server.settings import Settings
from ostler.server.settings.trust import is_trusted, trusting
from ostler.storage import Tx
from ostler.storage.repositories import sessions, trust, usage
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord

_AT_ONCE: Final = 100
"""Sessions that are written together: others have the disk in between."""


async def trust_changed(engine: Engine, settings: Settings) -> None:
    """Tell the sessions of a folder whether it is trusted now."""

    def look(connection: sqlite3.Connection) -> list[sessions.Place]:
        return sessions.in_folder(connection, settings.folder, trusted=not is_trusted(connection, settings))

    places = await engine.log.read(look)
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        told = [engine.log.submit(_Tell(session_id, settings), root_id) for session_id, root_id in some]
        for record in await asyncio.gather(*told):
            if record is not None:
                engine.changed(record)
                await _go_by_it(engine, record.id)


class _Tell:
    """A unit of work about one session; None where it knows already."""

    def __init__(self, session_id: SessionId, settings: Settings) -> None:
        self._session_id = session_id
        self._settings = settings

    def __call__(self, tx: Tx) -> SessionRecord | None:
        record = sessions.find(tx.connection, self._session_id)
        trusted = is_trusted(tx.connection, self._settings)
        if record is None or record.trusted == trusted:
            return None
        # Not newer for that: it has done nothing, and lists keep their order.
        record = replace(record, trusted=trusted)
        tell_change(tx, record, usage.total(tx.connection, record.id))
        return record


async def _go_by_it(engine: Engine, session_id: SessionId) -> None:
    """A session in memory has rules and hooks that depend on it; one that has not looked yet will."""
    actor = engine.found(session_id)
    if actor is not None and actor.live.arranged:
        await engine.arranger.arrange(actor.live)


@dataclass(frozen=True, slots=True)
class TrustMethods:
    engine: Engine

    async def list(self, params: TrustList) -> TrustPage:
        records = await self.engine.log.read(trust.every)
        after = page_position(TRUST_LIST.name, params, params.page, (str,))
        waiting = [record for record in records if after is None or record.folder > after[0]]
        page = waiting[: params.limit]
        token = page_token(TRUST_LIST.name, params, [page[-1].folder]) if len(waiting) > len(page) else None
        return TrustPage(trusts=[await self._shown(record) for record in page], next=token)

    async def grant(self, params: TrustFor, by: ClientId | None) -> Trust:
        settings = await self.engine.rooms.settings.of(await _folder(params.folder))
        record = trusting(settings, by)

        def work(tx: Tx) -> None:
            trust.grant(tx.connection, record)

        await self.engine.log.write(work)
        await trust_changed(self.engine, settings)
        return _trust(record, settings)

    async def revoke(self, params: TrustFor) -> Trust:
        folder = await anyio.to_thread.run_sync(os.path.realpath, params.folder)

        def work(tx: Tx) -> TrustRecord | None:
            known = trust.find(tx.connection, folder) or trust.find(tx.connection, params.folder)
            if known is not None:
                trust.revoke(tx.connection, known.folder)
            return known

        known = await self.engine.log.write(work)
        if known is None:
            raise InvalidParams.of("folder", f"{params.folder!r} is not trusted; `trust/list` shows what is")
        settings = await self.engine.rooms.settings.of(known.folder)
        await trust_changed(self.engine, settings)
        return _trust(known, settings).changed(current=False)

    async def _shown(self, record: TrustRecord) -> Trust:
        return _trust(record, await self.engine.rooms.settings.of(record.folder))


async def _folder(path: str) -> str:
    if not os.path.isabs(path):
        raise BadFolder(f"{path!r} is not absolute.", path=path)
    real = await anyio.to_thread.run_sync(os.path.realpath, path)
    if not await anyio.to_thread.run_sync(os.path.isdir, real):
        raise BadFolder(f"{path!r} is no folder.", path=path)
    return real


def _trust(record: TrustRecord, settings: Settings) -> Trust:
    return Trust(
        folder=record.folder,
        digest=record.digest,
        granted_at=record.granted_at,
        granted_by=record.granted_by,
        current=record.digest == settings.project_acts.digest,
        what=list(settings.project_acts.lines),
    )
