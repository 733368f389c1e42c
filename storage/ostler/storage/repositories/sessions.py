"""Sessions: their rows, and the deletion of everything that belongs to one."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ostler.protocol.errors import SessionNotFound
from ostler.protocol.ids import ResultId, SessionId
from ostler.protocol.session import Mode, OnAsk, SessionStatus
from ostler.storage.repositories.file_history import FileHistory
from ostler.storage.repositories.results import Results

WORKTREE: Final = "worktree"
"""The option that says which git worktree the session is in."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    id: SessionId
    root_id: SessionId
    cwd: str
    model: str
    provider: str
    mode: Mode
    on_ask: OnAsk
    created_at: str
    updated_at: str
    parent_id: SessionId | None = None
    title: str | None = None
    status: SessionStatus = "idle"
    trusted: bool = False
    directories: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """Options given at creation that only the engine reads: rules, tools, instructions, environment…"""

    @property
    def worktree_path(self) -> str | None:
        """The git worktree that the session is in; null where it is in the folder that it was created in."""
        found = self.options.get(WORKTREE)
        return str(found["path"]) if found else None


@dataclass(frozen=True, slots=True)
class Filter:
    cwd: str | None = None
    status: SessionStatus | None = None
    text: str | None = None
    archived: bool | None = False


_COLUMNS: Final = (
    "id, root_id, cwd, model, provider, mode, on_ask, created_at, updated_at, parent_id, title, status, trusted,"
    " directories_json, metadata_json, options_json"
)

_LIST_COLUMNS: Final = _COLUMNS.replace(
    "options_json", f"json_object('{WORKTREE}', json_extract(options_json, '$.{WORKTREE}'))"
)
"""For lists: options hold instructions of any length, which no list shows, and the worktree, which every list does."""


def _build_record(row: Sequence[Any]) -> SessionRecord:
    *plain, trusted, directories, metadata, options = row
    return SessionRecord(
        *plain,
        **{
            "trusted": bool(trusted),
            "directories": tuple(orjson.loads(directories)),
            "metadata": orjson.loads(metadata),
            "options": orjson.loads(options),
        },
    )


Position = tuple[str, str]
"""Where a page ended: the activity and the id of its last session."""

SessionWithRoot = tuple[SessionId, SessionId]
"""A session, and the root of its tree."""

_OWNED_TABLES: Final = (
    "turns",
    "messages",
    "cleared_results",
    "drafts",
    "draft_blocks",
    "steers",
    "calls",
    "asks",
    "tasks",
    "usage",
    "session_states",
    "file_reads",
    "todo_lists",
    "processes",
    "idempotency_keys",
)
"""Tables whose rows belong to the session in their session_id."""


class Sessions:
    __slots__ = ("_connection", "_file_history", "_results")

    def __init__(self, connection: sqlite3.Connection, file_history: FileHistory, results: Results) -> None:
        self._connection = connection
        self._file_history = file_history
        self._results = results

    def put(self, session: SessionRecord) -> None:
        """Insert a session, or replace the row it has."""
        self._connection.execute(
            f"INSERT OR REPLACE INTO sessions ({_COLUMNS}, search_text)"  # noqa: S608 - constant text
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.id,
                session.root_id,
                session.cwd,
                session.model,
                session.provider,
                session.mode,
                session.on_ask,
                session.created_at,
                session.updated_at,
                session.parent_id,
                session.title,
                session.status,
                session.trusted,
                orjson.dumps(session.directories).decode(),
                orjson.dumps(session.metadata).decode(),
                orjson.dumps(session.options).decode(),
                f"{session.title or ''}\n{session.cwd}".casefold(),
            ),
        )

    def find(self, session_id: SessionId) -> SessionRecord | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM sessions WHERE id = ?",  # noqa: S608 - constant text
            (session_id,),
        ).fetchone()
        return _build_record(row) if row else None

    def get(self, session_id: SessionId) -> SessionRecord:
        record = self.find(session_id)
        if record is None:
            raise SessionNotFound(session_id)
        return record

    def list_page(self, wanted: Filter, after: Position | None, limit: int) -> list[SessionRecord]:
        """Sessions by newest activity, without their options, and without agents: those are found by their parents."""
        conditions = ["parent_id IS NULL"]
        values: list[Any] = []
        if after is not None:
            conditions.append("(updated_at, id) < (?, ?)")
            values += after
        if wanted.cwd is not None:
            conditions.append("cwd = ?")
            values.append(wanted.cwd)
        if wanted.status is not None:
            conditions.append("status = ?")
            values.append(wanted.status)
        elif wanted.archived is not None:
            conditions.append("status = 'archived'" if wanted.archived else "status != 'archived'")
        if wanted.text:
            conditions.append("instr(search_text, ?) > 0")
            values.append(wanted.text.casefold())
        where = f" WHERE {' AND '.join(conditions)}"
        rows = self._connection.execute(
            f"SELECT {_LIST_COLUMNS} FROM sessions{where} ORDER BY updated_at DESC, id DESC LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [_build_record(row) for row in rows]

    def list_in_folder(self, folder: str, *, trusted: bool) -> list[SessionWithRoot]:
        """The sessions of a folder that treat it as trusted, or as not trusted."""
        return self._connection.execute(
            "SELECT id, root_id FROM sessions WHERE cwd = ? AND trusted = ?", (folder, trusted)
        ).fetchall()

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def list_family(self, session_id: SessionId) -> list[SessionRecord]:
        """A session and all its agents, also theirs, parents before children."""
        rows = self._connection.execute(
            f"""
            WITH RECURSIVE family(member, depth) AS (
                SELECT ?, 0
                UNION ALL
                SELECT child.id, depth + 1 FROM sessions AS child JOIN family ON child.parent_id = member
            )
            SELECT {_COLUMNS} FROM family JOIN sessions ON sessions.id = member ORDER BY depth, id
            """,  # noqa: S608 - constant text
            (session_id,),
        )
        return [_build_record(row) for row in rows]

    def delete(self, session: SessionRecord) -> list[ResultId]:
        """Remove one session with every row that belongs to it; returns the results of which pieces are still to go."""
        for table in _OWNED_TABLES:
            self._connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session.id,))  # noqa: S608 - from the list
        # By root, because that is the index there is; the second condition spares the rest of the family.
        self._connection.execute(
            "DELETE FROM events WHERE root_id = ? AND session_id = ?", (session.root_id, session.id)
        )
        left = self._results.disown(session.id)
        self._file_history.forget(session.id)
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session.id,))
        return left

    def find_roots(self, session_ids: Iterable[SessionId]) -> dict[SessionId, SessionId]:
        """The root session of each; unknown ones are left out."""
        found: dict[SessionId, SessionId] = {}
        for session_id in session_ids:
            row = self._connection.execute("SELECT root_id FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if row:
                found[session_id] = row[0]
        return found
