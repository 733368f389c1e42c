"""Background tasks: their state, how they ended, and what the model was told of them."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.ids import Cursor, SessionId, TaskId, TurnId
from ostler.protocol.shapes import Task, TaskStatus
from ostler.protocol.wire import Time
from ostler.storage.node import Node
from ostler.storage.stamp import Stamp, is_place


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task with its internal fields, which are not on the wire."""

    task: Task
    turn_id: TurnId | None = None
    """The turn that started it."""
    pid: int | None = None
    start_time: str | None = None
    """Together with the pid it identifies the process, also after the pid is reused."""
    output: str | None = None
    """The file that it prints to."""
    read_bytes: int = 0
    """How much of its output the model has seen."""
    told: bool = False
    """The model was told how it ended."""
    until: str | None = None
    """Of a monitor: the pattern of the line that ends it."""
    ends_at: Time | None = None
    """Of a monitor: when it ends at the latest."""
    heard_bytes: int = 0
    """Of a monitor: the model was told of the lines up to here."""
    cursor: Cursor = Cursor(0)  # noqa: RUF009 - a number
    """Where it was started: its place in every list."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What the model was told of a task: how it ended, or the lines of a monitor up to a place."""

    task_id: TaskId
    heard_bytes: int | None = None


_COLUMNS: Final = "task_json, turn_id, pid, start_time, output, read_bytes, told, until, ends_at, heard_bytes, cursor"

_PLACEHOLDERS: Final = ", ".join("?" * 15)

_ENDED_STATUSES: Final = "('completed', 'failed', 'killed')"


class Tasks:
    __slots__ = ("_connection", "_node", "unstamped")

    def __init__(self, connection: sqlite3.Connection, node: Node) -> None:
        self._connection = connection
        self._node = node
        self.unstamped: list[TaskId] = []

    def put(self, record: TaskRecord) -> None:
        """Insert a task, or replace the state it has."""
        task = record.task
        if is_place(record.cursor):
            self.unstamped.append(task.id)
        self._connection.execute(
            f"INSERT OR REPLACE INTO tasks (id, session_id, status, node, {_COLUMNS}) VALUES ({_PLACEHOLDERS})",  # noqa: S608 - constant text
            (
                task.id,
                task.session_id,
                task.status,
                self._node,
                task.encoded().decode(),
                record.turn_id,
                record.pid,
                record.start_time,
                record.output,
                record.read_bytes,
                record.told,
                record.until,
                record.ends_at,
                record.heard_bytes,
                record.cursor,
            ),
        )

    def stamp(self, stamp: Stamp) -> None:
        for task_id in self.unstamped:
            self._connection.execute("UPDATE tasks SET cursor = cursor - ? WHERE id = ?", (stamp.shift, task_id))

    def end(self, task: Task) -> bool:
        """Store the last state of a task; false where it has ended before, or was deleted with its session."""
        changed = self._connection.execute(
            "UPDATE tasks SET status = ?, task_json = ? WHERE id = ? AND status IN ('pending', 'running')",
            (task.status, task.encoded().decode(), task.id),
        )
        return changed.rowcount == 1

    def find(self, task_id: TaskId) -> TaskRecord | None:
        return next(iter(self._select_records("WHERE id = ?", task_id)), None)

    def list_by_sessions(self, session_ids: Iterable[SessionId]) -> list[TaskRecord]:
        """Oldest first."""
        wanted = list(session_ids)
        placeholders = ", ".join("?" * len(wanted))
        return self._select_records(f"WHERE session_id IN ({placeholders}) ORDER BY cursor", *wanted)

    def list_page(
        self,
        session_ids: Iterable[SessionId] | None,
        status: TaskStatus | None,
        after: Cursor | None,
        limit: int,
    ) -> list[TaskRecord]:
        """Tasks after a place in the order of their beginning, of some sessions or of all."""
        conditions: list[str] = []
        values: list[Any] = []
        if session_ids is not None:
            wanted = list(session_ids)
            conditions.append(f"session_id IN ({', '.join('?' * len(wanted))})")
            values += wanted
        if status is not None:
            # Written out where it is `running`: the index for those is found only by a constant.
            conditions.append("status = 'running'" if status == "running" else "status = ?")
            values += [] if status == "running" else [status]
        if after is not None:
            conditions.append("cursor > ?")
            values.append(after)
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        return self._select_records(f"{where}ORDER BY cursor LIMIT ?", *values, limit)

    def list_unfinished(self) -> list[TaskRecord]:
        """The tasks that an earlier daemon left running on this node."""
        return self._select_records("WHERE status IN ('pending', 'running') AND node = ? ORDER BY cursor", self._node)

    def list_unreported(self, session_id: SessionId | None = None) -> list[TaskRecord]:
        """Tasks that have ended without the model being told, in one session or in all of this node."""
        owner, value = ("node", self._node) if session_id is None else ("session_id", session_id)
        found = self._select_records(f"WHERE {owner} = ? AND told = 0 AND status IN {_ENDED_STATUSES}", value)
        return sorted(found, key=lambda record: record.task.ended_at or "")

    def list_output_files(self) -> set[str]:
        """The files of this node that belong to a task."""
        query = "SELECT output FROM tasks WHERE output IS NOT NULL AND node = ?"
        return {row[0] for row in self._connection.execute(query, (self._node,))}

    def mark_reported(self, told: Iterable[TaskReport]) -> None:
        for each in told:
            if each.heard_bytes is None:
                self._connection.execute("UPDATE tasks SET told = 1 WHERE id = ?", (each.task_id,))
            else:
                self._connection.execute(
                    "UPDATE tasks SET heard_bytes = max(heard_bytes, ?) WHERE id = ?", (each.heard_bytes, each.task_id)
                )

    def mark_unreported(self, ends: Iterable[TaskReport]) -> None:
        """The model was not told after all how these ended."""
        self._connection.executemany("UPDATE tasks SET told = 0 WHERE id = ?", [(each.task_id,) for each in ends])

    def mark_read(self, task_id: TaskId, read_bytes: int) -> None:
        self._connection.execute(
            "UPDATE tasks SET read_bytes = ? WHERE id = ? AND read_bytes < ?", (read_bytes, task_id, read_bytes)
        )

    def mark_unread(self, task_id: TaskId, read_bytes: int) -> None:
        """Take back what was marked as read after an offset: the model was not shown it."""
        self._connection.execute(
            "UPDATE tasks SET read_bytes = ? WHERE id = ? AND read_bytes > ?", (read_bytes, task_id, read_bytes)
        )

    def _select_records(self, condition: str, *values: Any) -> list[TaskRecord]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM tasks {condition}", values)  # noqa: S608 - ours, as above
        return [
            TaskRecord(
                Task.model_validate_json(row[0]),
                turn_id=row[1],
                pid=row[2],
                start_time=row[3],
                output=row[4],
                read_bytes=row[5],
                told=bool(row[6]),
                until=row[7],
                ends_at=row[8],
                heard_bytes=row[9],
                cursor=row[10],
            )
            for row in rows
        ]
