"""Notifications that wait for a session's next model request: the end of a task, or a line that a monitor found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Call, Task
from ostler.server.prompt.reminders import wrap_note
from ostler.storage.repositories.tasks import TaskReport
from ostler.tools.context import Waker
from ostler.tools.text import one_line

_MAX_WAITING: Final = 200
"""Notifications of one session: a monitor on a busy file must not fill the context."""
_MORE_LINES: Final = wrap_note("There were more lines than these: read them with TaskOutput.")


@dataclass(frozen=True, slots=True, eq=False)
class Notification:
    """A text for the model, and what of which task it announces."""

    text: str
    report: TaskReport

    @property
    def is_end(self) -> bool:
        """Whether it announces the end of the task."""
        return self.report.heard_bytes is None


WakeSetting = bool | str | None
"""As `wake_on_task_end` is stored: what earlier versions stored is true or false."""
AGENT_LETTER: Final = "a"
"""With which the ids of the tasks of agents begin."""


class Notifications:
    """The queues of notifications of all sessions, and what was shown to the model last."""

    def __init__(self) -> None:
        self._waiting: dict[SessionId, list[Notification]] = {}
        self._just_announced: dict[SessionId, tuple[Notification, ...]] = {}
        """Those in the input of a turn, which a hook may still block."""
        self._shown_ends: dict[SessionId, list[TaskReport]] = {}
        """Ends of tasks that the results in the next message show."""
        self._read_before: dict[SessionId, dict[TaskId, int]] = {}
        """Up to where the model had read a task's output before the calls whose results are not sent yet."""

    def add(self, session_id: SessionId, notification: Notification) -> None:
        waiting = self._waiting.setdefault(session_id, [])
        if notification.is_end and any(each.report == notification.report for each in waiting):
            return  # found again on the disk, after a failure
        if not notification.is_end and len(waiting) >= _MAX_WAITING:
            notification = replace(notification, text=_MORE_LINES)
            if waiting[-1].text == _MORE_LINES:
                waiting.pop()
        waiting.append(notification)

    def take(self, session_id: SessionId) -> list[Notification]:
        self._just_announced.pop(session_id, None)
        return self._waiting.pop(session_id, [])

    def list_waiting(self, session_id: SessionId) -> list[Notification]:
        """What is to be sent; `drop` it when it was."""
        return list(self._waiting.get(session_id, ()))

    def drop(self, session_id: SessionId, announced: Sequence[Notification]) -> None:
        rest = [each for each in self._waiting.pop(session_id, []) if each not in announced]
        if rest:
            self._waiting[session_id] = rest
        self._just_announced.pop(session_id, None)
        if announced:
            self._just_announced[session_id] = tuple(announced)

    def requeue(self, session_id: SessionId) -> list[TaskReport]:
        """The message was withdrawn: its notifications wait again; returns the ends that are unannounced again."""
        again = self._just_announced.pop(session_id, ())
        for each in again:
            self.add(session_id, each)
        return [each.report for each in again if each.is_end]

    def mark_shown(self, session_id: SessionId, calls: Iterable[Call]) -> None:
        """Results that the model sees next: the ends of tasks in them are not announced once more."""
        shown = [TaskReport(TaskId(task_id)) for call in calls if (task_id := _find_shown_end(call)) is not None]
        rest = [each for each in self._waiting.pop(session_id, []) if each.report not in shown]
        if rest:
            self._waiting[session_id] = rest
        if shown:
            self._shown_ends[session_id] = shown

    def take_shown(self, session_id: SessionId) -> list[TaskReport]:
        """The ends that the message shows, to be stored with it."""
        self._read_before.pop(session_id, None)
        return self._shown_ends.pop(session_id, [])

    def record_read(self, session_id: SessionId, task_id: TaskId, read_bytes: int) -> None:
        """A call reads on from there; where its result is never sent, the next one begins there again."""
        self._read_before.setdefault(session_id, {}).setdefault(task_id, read_bytes)

    def take_reads(self, session_id: SessionId) -> dict[TaskId, int]:
        return self._read_before.pop(session_id, {})

    def has_waiting(self, session_id: SessionId) -> bool:
        return session_id in self._waiting

    def wakes(self, session_id: SessionId, wanted: WakeSetting) -> bool:
        """Whether something waits that wakes an idle session, as its `wake_on_task_end` says."""
        return any(wakes_session(each.report, wanted) for each in self._waiting.get(session_id, ()))

    def find_waker(self, session_id: SessionId) -> Waker:
        """What the newest notification comes from."""
        waiting = self._waiting.get(session_id)
        return "monitor" if waiting and not waiting[-1].is_end else "task"

    def forget(self, session_id: SessionId) -> None:
        self._waiting.pop(session_id, None)
        self._just_announced.pop(session_id, None)
        self._shown_ends.pop(session_id, None)
        self._read_before.pop(session_id, None)


def wakes_session(report: TaskReport, wanted: WakeSetting) -> bool:
    """Whether news of a task start a turn: those of agents in the background, or of all tasks."""
    return wanted in {True, "all"} or (wanted == "agents" and report.task_id.startswith(AGENT_LETTER))


def _find_shown_end(call: Call) -> str | None:
    """The task whose end a result shows, because the model has read its output, or has stopped it."""
    match call.tool, call.output:
        case "TaskOutput", {"retrieval_status": "success", "task": {"task_id": str(task_id)}}:
            return task_id
        case "TaskStop", {"task_id": str(task_id)}:
            return task_id
        case _:
            return None


def build_end_notification(task: Task) -> Notification:
    """The notification of a task's end, which the model gets once."""
    how = {"completed": "is done", "failed": "has failed", "killed": "was stopped"}[task.status]
    # A monitor is described by what it waits for: where it follows a file, the command is not the model's.
    what = task.description if task.type == "monitor_mcp" else task.command or task.description
    why = f" (exit code {task.exit_code})" if task.exit_code else f" ({task.error})" if task.error else ""
    line = quote_line(what, 200)
    shown = "its report" if task.type == "local_agent" else "what it printed"
    text = f"The background task {task.id} {how}{why}: {line}\nTaskOutput shows {shown}."
    return Notification(wrap_note(text), TaskReport(task.id))


def build_stall_notification(task: Task, words: str) -> Notification:
    """Of an agent that makes no progress; it goes on."""
    said = quote_line(words, 500)
    text = f"{said}\nIts task is {task.id}. TaskStop ends it; where that is to be expected, leave it."
    return Notification(wrap_note(text), TaskReport(task.id, heard_bytes=0))


def quote_line(text: str, most: int) -> str:
    """One line that cannot pass for a tag of ours, whatever a command or a file prints."""
    return one_line(text, most).replace("<ostler-", "< ostler-").replace("</ostler-", "< /ostler-")
