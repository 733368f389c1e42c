"""What the tools of the work list have in common: the form of an item, and the nudge to check what was done."""

import re
from collections.abc import Sequence
from typing import Final

from ostler.protocol.ids import TodoId
from ostler.protocol.patterns import compile_later
from ostler.protocol.todo import Todo

_VERIFIES: Final = compile_later(
    r"\b(verif|check|test|review|validat|lint|confirm|inspect|measur|benchmark)", re.IGNORECASE
)
_UNCHECKED: Final = 3

MAX_SUBJECT_CHARS: Final = 500
MAX_DESCRIPTION_CHARS: Final = 20_000
NUDGE: Final = "Nothing on the list checks what was done. Before you call it finished, add a todo that verifies it."


def needs_verification(todos: Sequence[Todo]) -> bool:
    """Whether several items are completed and none of them was about checking the work."""
    done = [todo for todo in todos if todo.status == "completed"]
    return len(done) >= _UNCHECKED and not any(_VERIFIES.search(f"{todo.subject} {todo.description}") for todo in done)


def list_open_blockers(todo: Todo, todos: Sequence[Todo]) -> list[TodoId]:
    """The items that it still waits for."""
    done = {each.id for each in todos if each.status == "completed"}
    return [each for each in todo.blocked_by if each not in done]
