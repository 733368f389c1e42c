"""What a session is to be told of at its next request: the end of a task, or a line that a monitor waited for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Call, Task
from ostler.server.prompt.reminders import note
from ostler.storage.repositories.tasks import Told
from ostler.tools.context import Waker
from ostler.tools.text import one_line

_MAX_WAITING: Final = 200
"""Pieces of news of one session: a monitor on a busy file must not fill the context."""
_MORE: Final = note("There were more lines than these: read them with TaskOutput.")


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """Words for the model, and what they tell of which task."""

    text: str
    told: Told

    @property
    def ends(self) -> bool:
        """They tell how it ended."""
        return self.told.heard_bytes is None


class NewsDesk:
    """The news of all sessions that nobody was told of yet."""

    def __init__(self) -> None:
        self._waiting: dict[SessionId, list[News]] = {}
        self._just_told: dict[SessionId, tuple[News, ...]] = {}
        """What stood at the beginning of a turn, which a hook may still keep from the model."""
        self._shown: dict[SessionId, list[Told]] = {}
        """Ends that the results of the message that comes next show."""
        self._looked: dict[SessionId, dict[TaskId, int]] = {}
        """Up to where the model had read a task's output before the calls that it is about to hear of."""

    def add(self, session_id: SessionId, news: News) -> None:
        waiting = self._waiting.setdefault(session_id, [])
        if news.ends and any(each.told == news.told for each in waiting):
            return  # found again on the disk, after a failure
        if not news.ends and len(waiting) >= _MAX_WAITING:
            news = replace(news, text=_MORE)
            if waiting[-1].text == _MORE:
                waiting.pop()
        waiting.append(news)

    def take(self, session_id: SessionId) -> list[News]:
        self._just_told.pop(session_id, None)
        return self._waiting.pop(session_id, [])

    def waiting(self, session_id: SessionId) -> list[News]:
        """What is to be told; `drop` it when it was."""
        return list(self._waiting.get(session_id, ()))

    def drop(self, session_id: SessionId, told: Sequence[News]) -> None:
        rest = [each for each in self._waiting.pop(session_id, []) if each not in told]
        if rest:
            self._waiting[session_id] = rest
        self._just_told.pop(session_id, None)
        if told:
            self._just_told[session_id] = tuple(told)

    def bring_back(self, session_id: SessionId) -> list[Told]:
        """The message that told it was taken back: it waits again, and the ends that were told are not."""
        again = self._just_told.pop(session_id, ())
        for each in again:
            self.add(session_id, each)
        return [each.told for each in again if each.ends]

    def show(self, session_id: SessionId, calls: Iterable[Call]) -> None:
        """Results that the model sees next: the ends of tasks in them are not told once more."""
        shown = [Told(TaskId(task_id)) for call in calls if (task_id := _ended_in(call)) is not None]
        rest = [each for each in self._waiting.pop(session_id, []) if each.told not in shown]
        if rest:
            self._waiting[session_id] = rest
        if shown:
            self._shown[session_id] = shown

    def take_shown(self, session_id: SessionId) -> list[Told]:
        """With the message that shows them."""
        self._looked.pop(session_id, None)
        return self._shown.pop(session_id, [])

    def looked(self, session_id: SessionId, task_id: TaskId, read_bytes: int) -> None:
        """A call goes on from there; should the model never hear of it, the next one begins there again."""
        self._looked.setdefault(session_id, {}).setdefault(task_id, read_bytes)

    def take_looks(self, session_id: SessionId) -> dict[TaskId, int]:
        return self._looked.pop(session_id, {})

    def any_for(self, session_id: SessionId) -> bool:
        return session_id in self._waiting

    def waker(self, session_id: SessionId) -> Waker:
        """What the newest of them is about."""
        waiting = self._waiting.get(session_id)
        return "monitor" if waiting and not waiting[-1].ends else "task"

    def forget(self, session_id: SessionId) -> None:
        self._waiting.pop(session_id, None)
        self._just_told.pop(session_id, None)
        self._shown.pop(session_id, None)
        self._looked.pop(session_id, None)


def _ended_in(call: Call) -> str | None:
    """The task whose end a result shows, because the model has looked, or has stopped it."""
    match call.tool, call.output:
        case "TaskOutput", {"retrieval_status": "success", "task": {"task_id": str(task_id)}}:
            return task_id
        case "TaskStop", {"task_id": str(task_id)}:
            return task_id
        case _:
            return None


def end_of(task: Task) -> News:
    """As the model is told of it, once."""
    how = {"completed": "is done", "failed": "has failed", "killed": "was stopped"}[task.status]
    # A monitor is known by what it waits for: the command that follows a file is ours.
    what = task.description if task.type == "monitor_mcp" else task.command or task.description
    why = f" (exit code {task.exit_code})" if task.exit_code else f" ({task.error})" if task.error else ""
    line = quoted(what, 200)
    words = f"The background task {task.id} {how}{why}: {line}\nTaskOutput shows what it printed."
    return News(note(words), Told(task.id))


def quoted(text: str, most: int) -> str:
    """One line that cannot pass for words of ours, whatever a command or a file says."""
    return one_line(text, most).replace("<ostler-", "< ostler-").replace("</ostler-", "< /ostler-")
