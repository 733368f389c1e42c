"""How a task ended, in the words of its last state."""

from typing import Final

from ostler.protocol import times
from ostler.protocol.shapes import Task, TaskStatus
from ostler.tools.shell.output.text import signal_in, signal_name

GONE: Final = "It was gone when the daemon came back, and nobody knows how it ended."
WITHOUT_A_WORD: Final = "It was killed from elsewhere, before it could say how it ended."


def stopped(task: Task, why: str, size: int) -> Task:
    """Somebody ended it."""
    return _over(task, "killed", None, why, size)


def satisfied(task: Task, size: int) -> Task:
    """A monitor has seen what it was waiting for."""
    return _over(task, "completed", None, None, size)


def ended(task: Task, code: int | None, number: int | None, size: int, unknown: str = GONE) -> Task:
    """It ended by itself, or by a signal of somebody else's; `unknown` is said where nothing tells how."""
    number = number or signal_in(code)
    if number is not None:
        return _over(task, "failed", code, f"ended by {signal_name(number)}", size)
    if code is None:
        return _over(task, "failed", None, unknown, size)
    return _over(task, "completed" if code == 0 else "failed", code, None, size)


def failed(task: Task, why: str, size: int) -> Task:
    return _over(task, "failed", None, why, size)


def _over(task: Task, status: TaskStatus, code: int | None, error: str | None, size: int) -> Task:
    last = {"status": status, "exit_code": code, "error": error, "ended_at": times.now(), "output_bytes": size}
    return task.model_copy(update=last)
