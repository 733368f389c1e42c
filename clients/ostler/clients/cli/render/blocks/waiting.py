"""What is shown while a turn runs: a spinner, the work list, the tokens so far."""

from collections.abc import Sequence
from typing import Final

from ostler.clients.cli.output import format_count
from ostler.clients.cli.render.blocks.rows import Row, clean, fit_row, make_row
from ostler.protocol.todo import Todo

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINS_PER_SECOND: Final = 4
_PANEL_ROWS: Final = 7
_SIGNS: Final = {"pending": "☐", "in_progress": "▸", "completed": "☑"}


def choose_sign(seconds: float) -> str:
    return SPINNER[int(seconds * _SPINS_PER_SECOND) % len(SPINNER)]


def render_spinner(seconds: float, words: str, facts: Sequence[str], columns: int) -> Row:
    """What happens, for how long, and the keys."""
    row = make_row(
        (f"{choose_sign(seconds)} ", "cyan"),
        (f"{clean(words)} … ", ""),
        (" · ".join([f"{int(seconds)} s", *facts]), "dim"),
    )
    return fit_row(row, columns)


def format_tokens(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.1f}k" if tokens < 100_000 else f"{tokens // 1000}k"


def find_active(todos: Sequence[Todo]) -> str | None:
    """What the work list says is being done."""
    active = next((todo for todo in todos if todo.status == "in_progress"), None)
    return None if active is None else active.active_form or active.subject


def render_todos(todos: Sequence[Todo], columns: int) -> list[Row]:
    """The work list as a panel: what is being done and what comes next; what is done is counted."""
    done = [todo for todo in todos if todo.status == "completed"]
    left = [todo for todo in todos if todo.status != "completed"]
    left.sort(key=lambda todo: todo.status != "in_progress")
    rows = [_render_todo(todo) for todo in left[:_PANEL_ROWS]]
    if len(left) > _PANEL_ROWS:
        rows.append(make_row((f"  … {len(left) - _PANEL_ROWS} more", "dim")))
    if done:
        rows.append(make_row((f"  ☑ {format_count(len(done), 'todo')} done", "dim")))
    return [fit_row(row, columns) for row in rows]


def _render_todo(todo: Todo) -> Row:
    active = todo.status == "in_progress"
    blocked = " (waits)" if todo.blocked_by and not active else ""
    owner = f" @{todo.owner}" if todo.owner else ""
    return make_row(
        (f"  {_SIGNS[todo.status]} ", "cyan" if active else "dim"),
        (clean(todo.subject), "bold" if active else ""),
        (f"{blocked}{clean(owner)}", "dim"),
    )
