"""Helpers for a task id that the model gave: old names of its parameter, and the message about an unknown id."""

from collections.abc import Sequence
from typing import Any, Final

from ostler.protocol.shapes import Task

_SHOWN: Final = 10


def rename_parameter(given: Any, name: str, old_names: Sequence[str]) -> Any:
    """The input with the old name of a parameter replaced; where both are given it is unchanged, and then refused."""
    if not isinstance(given, dict) or name in given:
        return given
    old = next((each for each in old_names if each in given), None)
    return given if old is None else {name if key == old else key: value for key, value in given.items()}


def describe_missing_task(task_id: str, known: Sequence[Task]) -> str:
    """The message for the model, with the tasks that there are, the newest first."""
    wrong = f"There is no task {task_id[:100]!r} in this session."
    if not known:
        return f"{wrong} It has no tasks."
    named = ", ".join(f"{task.id} ({task.status})" for task in list(reversed(known))[:_SHOWN])
    return f"{wrong} Its tasks: {named}{', …' if len(known) > _SHOWN else ''}."
