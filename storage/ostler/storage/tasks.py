"""Tasks: what runs in the background, and how it ended."""

import sqlite3

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Task


def put(connection: sqlite3.Connection, task: Task) -> None:
    """Insert a task, or replace the state it has."""
    connection.execute(
        "INSERT OR REPLACE INTO tasks (id, session_id, status, task_json) VALUES (?, ?, ?, ?)",
        (task.id, task.session_id, task.status, task.encoded().decode()),
    )


def find(connection: sqlite3.Connection, task_id: TaskId) -> Task | None:
    row = connection.execute("SELECT task_json FROM tasks WHERE id = ?", (task_id,)).fetchone()
    return Task.model_validate_json(row[0]) if row else None


def of_session(connection: sqlite3.Connection, session_id: SessionId) -> list[Task]:
    rows = connection.execute("SELECT task_json FROM tasks WHERE session_id = ? ORDER BY id", (session_id,))
    return [Task.model_validate_json(row[0]) for row in rows]


def unfinished(connection: sqlite3.Connection) -> list[Task]:
    """What was running when the daemon last had the say."""
    rows = connection.execute("SELECT task_json FROM tasks WHERE status IN ('pending', 'running')")
    return [Task.model_validate_json(row[0]) for row in rows]
