"""The last state of a task: its status, exit code and error after it ended."""

from typing import Final

from ostler.protocol import times
from ostler.protocol.shapes import Task, TaskStatus
from ostler.tools.shell.output.text import format_signal, parse_signal

GONE_AFTER_RESTART: Final = "It was gone when the daemon came back, and nobody knows how it ended."
KILLED_EXTERNALLY: Final = "It was killed from elsewhere, before it could say how it ended."


def mark_stopped(task: Task, why: str, size: int) -> Task:
    """Somebody ended it."""
    return _end_task(task, "killed", None, why, size)


def mark_satisfied(task: Task, size: int) -> Task:
    """A monitor has found what it was waiting for."""
    return _end_task(task, "completed", None, None, size)


def mark_ended(task: Task, code: int | None, signal: int | None, size: int, unknown: str = GONE_AFTER_RESTART) -> Task:
    """It ended by itself, or by a signal from outside; `unknown` is the error where neither is known."""
    signal = signal or parse_signal(code)
    if signal is not None:
        return _end_task(task, "failed", code, f"ended by {format_signal(signal)}", size)
    if code is None:
        return _end_task(task, "failed", None, unknown, size)
    return _end_task(task, "completed" if code == 0 else "failed", code, None, size)


def mark_failed(task: Task, why: str, size: int) -> Task:
    return _end_task(task, "failed", None, why, size)


def _end_task(task: Task, status: TaskStatus, code: int | None, error: str | None, size: int) -> Task:
    last = {"status": status, "exit_code": code, "error": error, "ended_at": times.now(), "output_bytes": size}
    return task.model_copy(update=last)
