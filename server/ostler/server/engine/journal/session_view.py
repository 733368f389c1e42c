"""Builds the protocol's `Session` of stored sessions, and writes the events about them."""

from collections.abc import Sequence
from typing import Final

from ostler.protocol.brief import Brief
from ostler.protocol.events import SessionData
from ostler.protocol.ids import Cursor, SessionId
from ostler.protocol.session import Session
from ostler.protocol.shapes import Ask, AskingAgent, Turn, Usage
from ostler.storage import Scope, Snapshot, Tx
from ostler.storage.repositories.sessions import SessionRecord

_MAX_BRIEFS: Final = 10
_SEARCHED_EVENTS: Final = 5_000


def resolve_provider(model: str) -> str:
    return "rehearsal" if model == "rehearsal" else "anthropic"


def read_session(snapshot: Snapshot, record: SessionRecord, cursor: Cursor) -> Session:
    """A session with its current turn and open asks."""
    used = snapshot.usage.sum_session(record.id)
    turn = snapshot.turns.find_current(record.id)
    return build_session(record, cursor, used, turn, _find_open_asks(snapshot, record))


def list_last_briefs(snapshot: Snapshot, root_id: SessionId) -> list[Brief]:
    """The last messages to the people, for a client that comes later; none where very much has happened since."""
    found = snapshot.events.list_last_data(root_id, "brief.sent", _MAX_BRIEFS, _SEARCHED_EVENTS)
    return [Brief.model_validate_json(data) for data in found]


def read_session_page(snapshot: Snapshot, records: Sequence[SessionRecord]) -> list[Session]:
    """The sessions of a page, each with its current turn and open asks; read for all of them at once."""
    cursor = snapshot.events.load_head()
    ids = [record.id for record in records]
    used = snapshot.usage.sum_sessions(ids)
    running = snapshot.turns.find_current_by_session(ids)
    trees = snapshot.asks.list_open_by_tree([record.root_id for record in records])
    return [
        build_session(
            record,
            cursor,
            used[record.id],
            running.get(record.id),
            _filter_by_family(snapshot, record, trees.get(record.root_id, [])),
        )
        for record in records
    ]


def append_session_event(tx: Tx, kind: str, record: SessionRecord, used: Usage, turn: Turn | None) -> Session:
    """Append an event about a session, with its current turn and open asks."""
    session = build_session(record, tx.next_cursor, used, turn, _find_open_asks(tx, record))
    # The event refers to the asks by id and does not copy them: the diff of an ask can be long.
    stored = session.changed(asks=[]) if session.asks else session
    names = " ".join(ask.id for ask in session.asks) or None
    tx.append(kind, Scope(record.id, record.root_id), data=SessionData(session=stored), reference=names)
    return session


def store_session(tx: Tx, record: SessionRecord, used: Usage) -> Session:
    """Store the changed record of a session, and append `session.updated`."""
    tx.sessions.put(record)
    return append_session_event(tx, "session.updated", record, used, tx.turns.find_current(record.id))


def _find_open_asks(snapshot: Snapshot, record: SessionRecord) -> list[Ask]:
    return _filter_by_family(snapshot, record, snapshot.asks.list_open(record.root_id))


def _filter_by_family(snapshot: Snapshot, record: SessionRecord, in_tree: list[Ask]) -> list[Ask]:
    """Of the asks of a tree those of this session and of its agents."""
    if record.id == record.root_id or not in_tree:
        return in_tree
    family = {member.id for member in snapshot.sessions.list_family(record.id)}
    return [ask for ask in in_tree if ask.session_id in family]


def build_session(
    record: SessionRecord,
    cursor: Cursor,
    used: Usage | None = None,
    turn: Turn | None = None,
    open_asks: Sequence[Ask] = (),
) -> Session:
    """The protocol's `Session` of a record; without a turn and asks, unless they are passed."""
    return Session(
        id=record.id,
        cwd=record.worktree_path or record.cwd,
        title=record.title,
        model=record.model,
        provider=record.provider,
        mode=record.mode,
        status=record.status,
        # A session in a worktree works nowhere else.
        additional_directories=[] if record.worktree_path else list(record.directories),
        parent_id=record.parent_id,
        root_id=record.root_id,
        agent=_find_agent(record),
        on_ask=record.on_ask,
        trusted=record.trusted,
        created_at=record.created_at,
        updated_at=record.updated_at,
        cursor=cursor,
        turn=turn,
        asks=list(open_asks),
        usage=used or Usage(),
        metadata=record.metadata,
    )


def _find_agent(record: SessionRecord) -> AskingAgent | None:
    facts = record.options.get("agent")  # see engine/session/agent_facts.py, which is a layer above
    return AskingAgent(name=facts.get("name") or facts["description"], kind=facts["kind"]) if facts else None
