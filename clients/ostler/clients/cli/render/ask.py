"""An ask for the eye: all that an answer is about, line by line, and nothing left out without a mark."""

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostler.clients.cli.output import (
    Colour,
    counted,
    printable,
)
from ostler.clients.cli.render.diff import patch_lines
from ostler.clients.cli.render.text_width import fitting, width
from ostler.protocol.shapes import Ask

if TYPE_CHECKING:
    from ostler.clients import Ostler

ShownLine = tuple[str, Colour | None]

_BAR: Final = "  │ "
"""Stands before each line that somebody else wrote: none of it can pass for a line of ours, or for two."""
_AROUND: Final = 9
"""Rows that the head, the keys and what stood there before take."""
_FEWEST: Final = 8
_TITLES: Final = {"plan": "This is the plan.", "trust": "Trust this folder?"}


@dataclass(frozen=True, slots=True)
class Room:
    """How much of an ask is shown before somebody wants all of it."""

    rows: int
    columns: int

    def needed(self, text: str) -> int:
        """The rows that a line takes."""
        return max(1, -(-width(printable(text)) // self.columns))


def screen_room() -> Room:
    """So much that the head of an ask and its keys stand on one screen."""
    size = shutil.get_terminal_size()
    return Room(max(_FEWEST, size.lines - _AROUND), max(20, size.columns - 1))


def head(ask: Ask) -> ShownLine:
    """Who wants what, without what stands below it anyway."""
    who = f"{ask.agent.name or ask.agent.kind}: " if ask.agent else ""
    words = ask.message or _TITLES.get(ask.kind, "May it?")
    begin, colon, rest = words.partition(": ")
    # The daemon's question ends in the command, in one line and cut short: as such it hides what is run.
    if colon and _one_line(_command(ask)).startswith(rest.removesuffix("…")):
        words = f"{begin}:"
    return f"? {who}{words}", "red" if ask.destructive else "yellow"


def body(ask: Ask) -> list[ShownLine]:
    """What the answer is about, whole."""
    lines = _input_lines(ask)
    for text, colour in patch_lines(ask.diff or ""):
        lines.append((f"  {text}", colour))
    lines += _barred(ask.plan, None) if ask.plan else []
    lines += [line for wish in ask.allowed_prompts or [] for line in _named("along with it", _json(wish), "bold")]
    lines += [line for what in ask.what or [] for line in _brought(what)]
    return lines


def why(ask: Ask) -> list[ShownLine]:
    """What is known about it beside."""
    facts = [_reason(ask), f"from {ask.server}" if ask.server else None, ask.url, ask.folder]
    wanted = f"it wants: {_json(ask.schema_)}" if ask.schema_ else None
    return [(f"  {text}", "dim") for fact in (*facts, wanted) for text in (fact or "").split("\n") if text]


def cut(lines: list[ShownLine], room: Room) -> tuple[list[ShownLine], str | None]:
    """The lines that there is room for, and what is missing; null where nothing is."""
    left, shown = room.rows, list[ShownLine]()
    for at, (text, colour) in enumerate(lines):
        rows = room.needed(text)
        if rows <= left:
            shown.append((text, colour))
            left -= rows
            continue
        begin = fitting(text, left * room.columns - 1) if left else ""
        if begin:
            shown.append((f"{begin}…", colour))
        return shown, _missing(
            [text.removeprefix(begin or _BAR), *(text.removeprefix(_BAR) for text, _ in lines[at + 1 :])]
        )
    return shown, None


def _missing(texts: list[str]) -> str:
    return f"… {counted(sum(map(len, texts)), 'character')} on {counted(len(texts), 'line')} are not shown"


def _command(ask: Ask) -> str:
    command = ask.call.input.get("command") if ask.call is not None else None
    return command if isinstance(command, str) else ""


def _input_lines(ask: Ask) -> list[ShownLine]:
    """What the tool would be given: nobody can allow what they do not see."""
    if ask.call is None or ask.questions or ask.plan:
        return []
    command = _command(ask)
    lines = _barred(command, "bold") if command else []
    # A change to a file is shown as a patch, and its texts once more would only be in the way.
    rest = {} if ask.diff is not None else {name: value for name, value in ask.call.input.items() if name != "command"}
    if not command and "command" in ask.call.input:
        rest["command"] = ask.call.input["command"]
    if command and _one_line(command) in str(rest.get("description")):
        del rest["description"]  # it says the same once more
    for name, value in rest.items():
        lines += _named(name, value if isinstance(value, str) else _json(value), None if command else "bold")
    return lines


def _named(name: str, text: str, colour: Colour | None) -> list[ShownLine]:
    if "\n" not in text:
        return [(f"  {name}: {text}", colour)]
    return [(f"  {name}:", colour), *_barred(text, colour)]


def _barred(text: str, colour: Colour | None) -> list[ShownLine]:
    return [(f"{_BAR}{line}", colour) for line in text.split("\n")]


def _brought(what: dict[str, Any]) -> list[ShownLine]:
    first, *rest = (str(what["text"]) if "text" in what else _json(what)).split("\n")
    return [(f"  - {first}", "bold"), *((f"{_BAR}{line}", "bold") for line in rest)]


def _reason(ask: Ask) -> str | None:
    """Why it is asked; the command stands above and is not said again."""
    reason, part = ask.reason, f"`{_one_line(_command(ask))}`: "
    if reason and reason.startswith(part):
        return reason.removeprefix(part)
    return reason


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def who_answered(ostler: "Ostler", client_id: str | None, name: str | None) -> str:
    """What people call whoever settled an ask; the id of a client that said no name."""
    if client_id == ostler.daemon.client_id:
        return "this terminal"
    # Our own command is called so wherever it runs, which tells nobody anything.
    return "another terminal" if name == "ostler (terminal)" else name or client_id or "somebody"
