"""Monitors: lines of a task's output become notifications to the session, each of them once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.shapes import Task
from ostler.server.engine.tasks.notifications import Notification, quote_line
from ostler.server.prompt.reminders import wrap_note
from ostler.storage.repositories.tasks import TaskRecord, TaskReport
from ostler.tools.formats.terminal_text import clean_for_model
from ostler.tools.search.line_filter import find_matching_lines
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import read_in_thread

_READ_BYTES: Final = 1024 * 1024
_MAX_READS: Final = 8
"""Reads in one round, so that a command that prints without end does not hold up others."""
_MAX_BACKLOG_BYTES: Final = 32 * 1024 * 1024
"""Output that is further behind is skipped."""
_LINE_CHARS: Final = 500
_MAX_LINES: Final = 201
"""One more than the notifications that can wait."""


@dataclass(slots=True)
class LineMonitor:
    """Reads lines from the position after the last notification, whichever daemon sent that."""

    task: Task
    until: str | None
    path: str
    """The file that the command prints to."""
    position: int
    satisfied: bool
    """It has found the line that it was waiting for."""
    notify: Callable[[Sequence[Notification]], None]

    def has_unread(self, size: int) -> bool:
        return self.satisfied or self.position < size

    async def read_new_lines(self) -> bool:
        """Send notifications of new lines; true where it has found what it was waiting for."""
        for _ in range(_MAX_READS):
            if self.satisfied or not await self._read_lines(over=False):
                break
        return self.satisfied

    async def read_remaining_lines(self) -> bool:
        """The same after the command has ended: also a last line without a newline."""
        while not self.satisfied and await self._read_lines(over=True):
            pass
        return self.satisfied

    async def _read_lines(self, *, over: bool) -> bool:
        """False where nothing is new."""
        data, position = await read_in_thread(_read_lines_after, self.path, self.position, over)
        if position == self.position:
            return False
        self.position = position
        found = await self._select_lines(data)
        if found:
            self.satisfied = self.until is not None
            self.notify(
                [
                    Notification(_format_notification(self.task, line), TaskReport(self.task.id, position))
                    for line in found
                ]
            )
        return True

    async def _select_lines(self, data: bytes) -> list[str]:
        if self.until is None:
            return await read_in_thread(_split_first_lines, data)
        return await find_matching_lines(self.until, await read_in_thread(_clean_text, data), 1)


def build_monitor(record: TaskRecord, notify: Callable[[Sequence[Notification]], None]) -> LineMonitor | None:
    """None where the task is not a monitor."""
    if record.ends_at is None or record.output is None:
        return None
    # With `until`, only the one line that it waits for is ever announced.
    satisfied = record.until is not None and record.heard_bytes > 0
    return LineMonitor(record.task, record.until, record.output, record.heard_bytes, satisfied, notify)


def _read_lines_after(path: str, position: int, over: bool) -> tuple[bytes, int]:
    """Whole lines, and the position after them; the same position where there are none."""
    try:
        output = OutputFile.open(path)
    except OSError:
        return b"", position
    try:
        size = output.size
        printed = output.read_after(max(position, size - _MAX_BACKLOG_BYTES), _READ_BYTES)
    finally:
        output.close()
    data, everything = printed.data, over and printed.end >= size
    end = data.rfind(b"\n") + 1
    # A full read without a newline is taken as one line.
    if not everything and (end or len(data) < _READ_BYTES):
        data = data[:end]
    return data, printed.offset + len(data) if data else position


def _clean_text(data: bytes) -> str:
    return clean_for_model(data.decode("utf-8", "replace"))


def _split_first_lines(data: bytes) -> list[str]:
    return [line for line in _clean_text(data).split("\n") if line.strip()][:_MAX_LINES]


def _format_notification(task: Task, line: str) -> str:
    return wrap_note(
        f"The monitor {task.id} ({quote_line(task.description, 200)}) saw: {quote_line(line, _LINE_CHARS)}"
    )
