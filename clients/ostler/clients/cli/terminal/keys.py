"""The keys of a chat: what each does, for the terminal, for `?` and for the page about the terminal."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KeyHelp:
    """A row of the table: `?` and docs/terminal.md are made of it."""

    keys: str
    """As people call them."""
    help: str
    """What they do."""
    group: str
    command: str = ""
    """The slash command that they stand for."""
    sequence: str = ""
    """What the terminal sends, where the keys stand for a command."""


KEYS: Final = (
    KeyHelp("Enter", "send; while a turn runs it steers the agent", "Writing"),
    KeyHelp("Alt-Enter, Ctrl-J, \\ Enter", "a further line; Shift-Enter, too, where the terminal tells it", "Writing"),
    KeyHelp("Tab", "take what is suggested for a `/` or an `@`; ↑ and ↓ choose", "Writing"),
    KeyHelp("↑ ↓", "another line, then what was sent before", "Writing"),
    KeyHelp("Ctrl-R", "search what was sent before", "Writing"),
    KeyHelp("Ctrl-A Ctrl-E, Alt-B Alt-F", "to the line's beginning or end; a word back or on", "Writing"),
    KeyHelp("Ctrl-W Ctrl-U Ctrl-K, Alt-D", "cut a word, what is before or after; Ctrl-Y puts it back", "Writing"),
    KeyHelp("Ctrl-_", "undo", "Writing"),
    KeyHelp("Ctrl-G", "write on in $EDITOR", "Writing", "/editor", "\x07"),
    KeyHelp("Esc", "stop the turn, or go back from the words of an answer to its keys", "The turn"),
    KeyHelp("Ctrl-C", "drop what is typed, then stop the turn; twice: leave", "The turn"),
    KeyHelp("Ctrl-B", "let the command that runs go on in the background", "The turn", "/background", "\x02"),
    KeyHelp("Shift-Tab", "the next mode: default, acceptEdits, plan", "The turn", "/next-mode", "\x1b[Z"),
    KeyHelp("Ctrl-O", "the whole transcript, in $PAGER", "Looking", "/transcript", "\x0f"),
    KeyHelp("Ctrl-T", "show or hide the work list", "Looking", "/toggle-todos", "\x14"),
    KeyHelp("Ctrl-L", "draw everything again", "Looking", "/redraw", "\x0c"),
    KeyHelp("?", "these keys, on an empty line", "Looking", "/keys", "?"),
    KeyHelp("Ctrl-D", "leave, on an empty line; the turn goes on", "Looking"),
    KeyHelp("#TEXT, ##TEXT", "a note for the project's memory, for your own", "First letters"),
    KeyHelp("@FILE, @FILE:10-20", "mention a file, or lines of it: they go along", "First letters"),
    KeyHelp("/COMMAND", "something for this terminal; /help lists it", "First letters"),
)
"""All of them, in the order in which they are shown."""

SHORTCUTS: Final = {key.sequence: key.command for key in KEYS if key.sequence}
"""What the terminal sends, and the command that it stands for."""


def format_keys() -> list[str]:
    """The table for people."""
    width = max(len(key.keys) for key in KEYS)
    lines: list[str] = []
    for group in dict.fromkeys(key.group for key in KEYS):
        lines.append(group)
        lines += [f"  {key.keys:<{width}}  {key.help}" for key in KEYS if key.group == group]
    return lines
