"""What the model is told of its work list: that a person has edited it, and that it was not touched for long.

The number of edits, and up to which the model was told, are part of the session's state: it is told once, also after a
restart.
"""

from collections.abc import Mapping
from typing import Any, Final

from ostler.protocol.todo import Todo
from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.reminders import wrap_note
from ostler.tools.text import one_line

QUIET_REQUESTS: Final = 10
"""Of a list with open items: after so many requests without a tool of the list, the model is reminded of it."""
_SHOWN: Final = 20
_EDITS: Final = "todo_edits"
_TOLD: Final = "todo_edits_told"
_TOLD_BEFORE: Final = "todo_edits_told_before"
"""Up to which it was told before the input of the last turn: a hook may withdraw that input, and the note with it."""


def note_edit(live: LiveSession) -> None:
    """A person has changed the list."""
    live.remember(**{_EDITS: live.state.get(_EDITS, 0) + 1})


def describe_edits(live: LiveSession) -> list[str]:
    """A note where a person has changed the list since the model was last told."""
    if live.state.get(_EDITS, 0) <= live.state.get(_TOLD, 0):
        return []
    return [wrap_note("The person has edited your work list: it is no longer what you wrote last. Look at it first.")]


def build_told_state(live: LiveSession) -> dict[str, Any]:
    """The session state to store with a message that carries the note."""
    edits = live.state.get(_EDITS)
    return {} if edits is None else {_TOLD: edits}


def build_input_told_state(live: LiveSession) -> dict[str, Any]:
    """The same with the input of a turn, which a hook may withdraw."""
    told = build_told_state(live)
    return {**told, _TOLD_BEFORE: live.state.get(_TOLD, 0)} if told else {}


def revert_told_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The session state to store when the input of a turn is withdrawn."""
    return {**state, _TOLD: state[_TOLD_BEFORE]} if _TOLD_BEFORE in state else dict(state)


async def remind_of_todos(live: LiveSession) -> list[str]:
    """To be called for each request: a note where items are open and the list was not touched for long."""
    if not _has_tools(live):
        return []
    live.requests_without_todos += 1
    if live.requests_without_todos < QUIET_REQUESTS:
        return []
    live.requests_without_todos = 0
    stored = await live.journal.writes.log.read(lambda snapshot: snapshot.todos.get(live.record.id))
    still_open = [each for each in stored.todos if each.status != "completed"]
    if not still_open:
        return []
    lines = [_format_line(todo) for todo in still_open[:_SHOWN]]
    more = [f"and {len(still_open) - _SHOWN} more"] if len(still_open) > _SHOWN else []
    listed = "\n".join([*lines, *more])
    return [
        wrap_note(
            "Your work list was not touched for a while. Bring it up to date where it is not, and go on; "
            f"do not speak of this note. Open items:\n{listed}"
        )
    ]


def _has_tools(live: LiveSession) -> bool:
    """Whether the model can change the list at all."""
    # Imported here: with the tools, which are loaded for the first session.
    from ostler.tools.todos.task_update import TaskUpdate  # noqa: PLC0415
    from ostler.tools.todos.todo_write import TodoWrite  # noqa: PLC0415

    return live.view.has(TaskUpdate.name) or live.view.has(TodoWrite.name)


def _format_line(todo: Todo) -> str:
    return f"{todo.id}. {one_line(todo.subject, 200)} ({todo.status})"
