"""What a monitor hears: lines of what its command prints become messages to the session, each of them once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.shapes import Task
from ostler.server.engine.tasks.notifications import News, quoted
from ostler.server.prompt.reminders import note
from ostler.storage.repositories.tasks import TaskRecord, Told
from ostler.tools.formats.terminal_text import for_the_model
from ostler.tools.search.line_filter import matching_lines
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.threads import read_in_thread

_AT_ONCE: Final = 1024 * 1024
_PIECES: Final = 8
"""Of a command that prints without end, so many are heard before somebody else has his turn."""
_TOO_FAR: Final = 32 * 1024 * 1024
"""What is further behind is left out."""
_LINE_CHARS: Final = 500
_MOST_LINES: Final = 201
"""One more than anybody is told at once."""


@dataclass(slots=True)
class Ear:
    """Listens from where the model was last told of a line, whichever daemon did that."""

    task: Task
    until: str | None
    path: str
    """The file that the command prints to."""
    place: int
    satisfied: bool
    """It has told what it was waiting for."""
    tell: Callable[[Sequence[News]], None]

    def wants(self, size: int) -> bool:
        return self.satisfied or self.place < size

    async def hear(self) -> bool:
        """Tell what is new; true where that is what it was waiting for."""
        for _ in range(_PIECES):
            if self.satisfied or not await self._hear(over=False):
                break
        return self.satisfied

    async def hear_rest(self) -> bool:
        """The same when the command is over: also a last line without an end."""
        while not self.satisfied and await self._hear(over=True):
            pass
        return self.satisfied

    async def _hear(self, *, over: bool) -> bool:
        """False where nothing is new."""
        data, place = await read_in_thread(_lines_after, self.path, self.place, over)
        if place == self.place:
            return False
        self.place = place
        found = await self._wanted(data)
        if found:
            self.satisfied = self.until is not None
            self.tell([News(_words(self.task, line), Told(self.task.id, place)) for line in found])
        return True

    async def _wanted(self, data: bytes) -> list[str]:
        if self.until is None:
            return await read_in_thread(_first_lines, data)
        return await matching_lines(self.until, await read_in_thread(_cleaned, data), 1)


def ear_of(record: TaskRecord, tell: Callable[[Sequence[News]], None]) -> Ear | None:
    """Null where the task is no monitor."""
    if record.ends_at is None or record.output is None:
        return None
    # Only the one line that it waits for is ever told.
    satisfied = record.until is not None and record.heard_bytes > 0
    return Ear(record.task, record.until, record.output, record.heard_bytes, satisfied, tell)


def _lines_after(path: str, place: int, over: bool) -> tuple[bytes, int]:
    """Whole lines, and the place after them; the same place where there is none."""
    try:
        output = OutputFile.open(path)
    except OSError:
        return b"", place
    try:
        size = output.size
        printed = output.after(max(place, size - _TOO_FAR), _AT_ONCE)
    finally:
        output.close()
    data, everything = printed.data, over and printed.end >= size
    end = data.rfind(b"\n") + 1
    # So much without the end of a line is taken as one.
    if not everything and (end or len(data) < _AT_ONCE):
        data = data[:end]
    return data, printed.offset + len(data) if data else place


def _cleaned(data: bytes) -> str:
    return for_the_model(data.decode("utf-8", "replace"))


def _first_lines(data: bytes) -> list[str]:
    return [line for line in _cleaned(data).split("\n") if line.strip()][:_MOST_LINES]


def _words(task: Task, line: str) -> str:
    return note(f"The monitor {task.id} ({quoted(task.description, 200)}) saw: {quoted(line, _LINE_CHARS)}")
