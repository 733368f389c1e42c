"""How tasks are named by a model: under old names of the parameter, or wrongly."""

from collections.abc import Sequence
from typing import Any, Final

from ostler.protocol.shapes import Task

_SHOWN: Final = 10


def renamed(given: Any, name: str, old_names: Sequence[str]) -> Any:
    """The input with an old spelling of a parameter put right; two at once stay as they are, and are a mistake."""
    if not isinstance(given, dict) or name in given:
        return given
    old = next((each for each in old_names if each in given), None)
    return given if old is None else {name if key == old else key: value for key, value in given.items()}


def no_such_task(task_id: str, known: Sequence[Task]) -> str:
    """Words for the model that name the tasks that there are, the newest first."""
    wrong = f"There is no task {task_id[:100]!r} in this session."
    if not known:
        return f"{wrong} It has no tasks."
    named = ", ".join(f"{task.id} ({task.status})" for task in list(reversed(known))[:_SHOWN])
    return f"{wrong} Its tasks: {named}{', …' if len(known) > _SHOWN else ''}."
