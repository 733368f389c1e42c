"""The handlers of the trust methods: list, grant, revoke; and how sessions learn that the trust in a folder changed."""

import asyncio
import os
from dataclasses import dataclass, replace
from typing import Final

import anyio.to_thread

from ostler.protocol.errors import BadFolder, InvalidParams
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import TRUST_LIST
from ostler.protocol.trust import Trust, TrustFor, TrustList, TrustPage
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import store_session
from ostler.server.rpc.paging import make_page_token, parse_page_token
from ostler.server.settings import Settings
from ostler.server.settings.trust import build_trust_record, is_trusted
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories import sessions
from ostler.storage.repositories.clients import ClientRecord
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.trust import TrustRecord

_BATCH_SIZE: Final = 100
"""Sessions that are written at once; between two batches others can write."""


async def apply_trust_change(engine: Engine, settings: Settings) -> None:
    """Update the sessions of a folder: their records, and the settings of those in memory."""

    def read_rows(snapshot: Snapshot) -> list[sessions.SessionWithRoot]:
        return snapshot.sessions.list_in_folder(settings.folder, trusted=not is_trusted(snapshot, settings))

    places = await engine.log.read(read_rows)
    for start in range(0, len(places), _BATCH_SIZE):
        some = places[start : start + _BATCH_SIZE]
        updates = [engine.log.submit(_TrustUpdate(session_id, settings), root_id) for session_id, root_id in some]
        for record in await asyncio.gather(*updates):
            if record is not None:
                engine.replace_record(record)
                await _reload_settings(engine, record.id)


class _TrustUpdate:
    """A unit of work: stores whether one session's folder is trusted; None where nothing changes."""

    def __init__(self, session_id: SessionId, settings: Settings) -> None:
        self._session_id = session_id
        self._settings = settings

    def __call__(self, tx: Tx) -> SessionRecord | None:
        record = tx.sessions.find(self._session_id)
        trusted = is_trusted(tx, self._settings)
        if record is None or record.trusted == trusted:
            return None
        # `updated_at` stays: the session has done nothing, and lists keep their order.
        record = replace(record, trusted=trusted)
        store_session(tx, record, tx.usage.sum_session(record.id))
        return record


async def _reload_settings(engine: Engine, session_id: SessionId) -> None:
    """A session in memory has rules and hooks that depend on the trust; one that has no settings yet will load them."""
    actor = engine.find_actor(session_id)
    if actor is not None and actor.live.settings_loaded:
        await engine.settings_loader.load(actor.live)


@dataclass(frozen=True, slots=True)
class TrustMethods:
    engine: Engine

    async def list(self, params: TrustList) -> TrustPage:
        records = await self.engine.log.read(lambda snapshot: snapshot.trust.list_all())
        after = parse_page_token(TRUST_LIST.name, params, params.page, (str,))
        waiting = [record for record in records if after is None or record.folder > after[0]]
        page = waiting[: params.limit]
        token = make_page_token(TRUST_LIST.name, params, [page[-1].folder]) if len(waiting) > len(page) else None
        return TrustPage(trusts=[await self._describe_trust(record) for record in page], next=token)

    async def grant(self, params: TrustFor, client: ClientRecord | None) -> Trust:
        settings = await self.engine.shared.settings.get(await _check_folder(params.folder))
        record = build_trust_record(settings, client.id if client else None)

        def work(tx: Tx) -> None:
            tx.trust.grant(record)

        await self.engine.log.write(work)
        await apply_trust_change(self.engine, settings)
        return _build_trust(record, settings)

    async def revoke(self, params: TrustFor) -> Trust:
        folder = await anyio.to_thread.run_sync(os.path.realpath, params.folder)

        def work(tx: Tx) -> TrustRecord | None:
            known = tx.trust.find(folder) or tx.trust.find(params.folder)
            if known is not None:
                tx.trust.revoke(known.folder)
            return known

        known = await self.engine.log.write(work)
        if known is None:
            raise InvalidParams.of("folder", f"{params.folder!r} is not trusted; `trust/list` shows what is")
        settings = await self.engine.shared.settings.get(known.folder)
        await apply_trust_change(self.engine, settings)
        return _build_trust(known, settings).changed(current=False)

    async def _describe_trust(self, record: TrustRecord) -> Trust:
        return _build_trust(record, await self.engine.shared.settings.get(record.folder))


async def _check_folder(path: str) -> str:
    if not os.path.isabs(path):
        raise BadFolder(f"{path!r} is not absolute.", path=path)
    real = await anyio.to_thread.run_sync(os.path.realpath, path)
    if not await anyio.to_thread.run_sync(os.path.isdir, real):
        raise BadFolder(f"{path!r} is no folder.", path=path)
    return real


def _build_trust(record: TrustRecord, settings: Settings) -> Trust:
    return Trust(
        folder=record.folder,
        digest=record.digest,
        granted_at=record.granted_at,
        granted_by=record.granted_by,
        current=record.digest == settings.project_effects.digest,
        what=list(settings.project_effects.lines),
    )
