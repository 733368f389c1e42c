"""An item of the work list as one line of the terminal."""

from typing import Any, Final

from ostler.clients.cli.output import Colour, colourize, sanitize

MARKS: Final[dict[str, str]] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_COLOURS: Final[dict[str, Colour]] = {"in_progress": "yellow", "completed": "dim"}


def format_todo(todo: dict[str, Any], todos: list[dict[str, Any]]) -> str:
    """An item in a line: its mark, id and subject, and what it waits for that is still open."""
    done = {each["id"] for each in todos if each["status"] == "completed"}
    waits = [each for each in todo["blocked_by"] if each not in done]
    more = [f"waits for {', '.join(waits)}"] if waits else []
    more += [todo["owner"]] if todo["owner"] else []
    # A model may have given it an id of its own, and a subject of several lines.
    line = sanitize(f"{MARKS[todo['status']]} {todo['id']}. {' '.join(todo['subject'].split())}")
    line = colourize(line, _COLOURS[todo["status"]]) if todo["status"] in _COLOURS else line
    return f"{line}{colourize('  ' + sanitize(', '.join(more)), 'dim') if more else ''}"
