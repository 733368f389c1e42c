"""The sessions of a folder, when the trust in it changes: each says so, and goes by it from now on."""

import asyncio
import sqlite3
from dataclasses import replace
from typing import Final

from ostler.protocol.ids import SessionId
from ostler.server.engine.asks.trust import is_trusted
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import tell_change
from ostler.server.settings import Settings
from ostler.storage import Tx
from ostler.storage.repositories import sessions, usage
from ostler.storage.repositories.sessions import SessionRecord

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
