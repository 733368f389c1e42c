"""Stored sessions as the wire has them."""

from ostler.protocol.ids import Cursor
from ostler.protocol.session import Session
from ostler.protocol.shapes import Usage
from ostler.storage.sessions import SessionRecord


def provider_of(model: str) -> str:
    return "rehearsal" if model == "rehearsal" else "anthropic"


def session_shape(record: SessionRecord, cursor: Cursor, used: Usage | None = None) -> Session:
    """A stored session as the wire has it, at rest."""
    return Session(
        id=record.id,
        cwd=record.cwd,
        title=record.title,
        model=record.model,
        provider=record.provider,
        mode=record.mode,
        status=record.status,
        additional_directories=list(record.directories),
        parent_id=record.parent_id,
        root_id=record.root_id,
        on_ask=record.on_ask,
        trusted=record.trusted,
        created_at=record.created_at,
        updated_at=record.updated_at,
        cursor=cursor,
        usage=used or Usage(),
        metadata=record.metadata,
    )
