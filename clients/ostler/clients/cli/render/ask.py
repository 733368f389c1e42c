"""Renders an ask for people: all that an answer is about, line by line, and nothing left out without a mark."""

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostler.clients.cli.output import (
    Colour,
    format_count,
    sanitize,
)
from ostler.clients.cli.render.diff import render_patch
from ostler.clients.cli.render.text_width import fit_width, measure_width
from ostler.protocol.shapes import Ask

if TYPE_CHECKING:
    from ostler.clients import Ostler

StyledLine = tuple[str, Colour | None]

_BAR: Final = "  │ "
"""The prefix of each line that somebody else wrote: none of it can pass for a line of ours, or for two."""
_RESERVED_ROWS: Final = 9
"""Rows that the head, the keys and what stood there before take."""
_MIN_ROWS: Final = 8
_TITLES: Final = {"plan": "This is the plan.", "trust": "Trust this folder?"}


@dataclass(frozen=True, slots=True)
class ScreenArea:
    """How many rows an ask may take before somebody wants all of it, and how wide they are."""

    rows: int
    columns: int

    def count_rows(self, text: str) -> int:
        """The rows that a line takes."""
        return max(1, -(-measure_width(sanitize(text)) // self.columns))


def measure_screen() -> ScreenArea:
    """So much that the head of an ask and its keys stand on one screen."""
    size = shutil.get_terminal_size()
    return ScreenArea(max(_MIN_ROWS, size.lines - _RESERVED_ROWS), max(20, size.columns - 1))


def render_head(ask: Ask) -> StyledLine:
    """Who wants what, without what stands below it anyway."""
    who = f"{ask.agent.name or ask.agent.kind}: " if ask.agent else ""
    words = ask.message or _TITLES.get(ask.kind, "May it?")
    begin, colon, rest = words.partition(": ")
    # The daemon's question ends in the command, in one line and cut short: as such it hides what is run.
    if colon and _join_lines(_get_command(ask)).startswith(rest.removesuffix("…")):
        words = f"{begin}:"
    return f"? {who}{words}", "red" if ask.destructive else "yellow"


def render_body(ask: Ask) -> list[StyledLine]:
    """What the answer is about, whole."""
    lines = _render_input(ask)
    for text, colour in render_patch(ask.diff or ""):
        lines.append((f"  {text}", colour))
    for number in range(len(ask.questions or [])):
        lines += render_question(ask, number)
    lines += _quote_lines(ask.plan, None) if ask.plan else []
    lines += [
        line
        for wish in ask.allowed_prompts or []
        for line in _render_parameter("along with it", f"{wish.get('tool', '')}: {wish.get('prompt', '')}", "bold")
    ]
    lines += [line for what in ask.what or [] for line in _render_trust_item(what)]
    return lines


def describe_choices(ask: Ask) -> str:
    """What can follow `ostler answer ID`, as it would be typed."""
    if ask.kind == "question":
        several = len(ask.questions or []) > 1
        return "QUESTION=ANSWER … | decline" if several else "ANSWER | decline"
    return "approve [--mode MODE] | reject WORDS" if ask.kind == "plan" else "|".join(ask.choices)


def render_question(ask: Ask, at: int) -> list[StyledLine]:
    """One question of an ask, with its options; the only one stands in the head of the ask already."""
    questions = ask.questions or []
    question = questions[at]
    text = str(question.get("question", ""))
    lines: list[StyledLine] = []
    if len(questions) > 1 or text != ask.message:
        header = f"{question['header']}: " if question.get("header") else ""
        number = f"{at + 1}/{len(questions)} " if len(questions) > 1 else ""
        first, *rest = text.split("\n")
        lines.append((f"  {number}{header}{first}", "bold"))
        lines += _quote_rest(rest, "bold")
    for choice, option in enumerate(question.get("options") or [], start=1):
        what = f": {option['description']}" if option.get("description") else ""
        first, *rest = f"{option.get('label', '')}{what}".split("\n")
        lines.append((f"  {choice}  {first}", "cyan"))
        lines += _quote_rest(rest, "cyan")
        lines += _quote_lines(str(option["preview"]), "dim") if option.get("preview") else []
    return lines


def render_reasons(ask: Ask) -> list[StyledLine]:
    """Why it is asked, and what else is known about it."""
    facts = [_format_reason(ask), f"from {ask.server}" if ask.server else None, ask.url, ask.folder]
    wanted = f"it wants: {_format_json(ask.schema_)}" if ask.schema_ else None
    return [(f"  {text}", "dim") for fact in (*facts, wanted) for text in (fact or "").split("\n") if text]


def truncate_lines(lines: list[StyledLine], area: ScreenArea) -> tuple[list[StyledLine], str | None]:
    """The lines that there is room for, and what is missing; None where nothing is."""
    left, shown = area.rows, list[StyledLine]()
    for at, (text, colour) in enumerate(lines):
        rows = area.count_rows(text)
        if rows <= left:
            shown.append((text, colour))
            left -= rows
            continue
        begin = fit_width(text, left * area.columns - 1) if left else ""
        if begin:
            shown.append((f"{begin}…", colour))
        return shown, _describe_missing(
            [text.removeprefix(begin or _BAR), *(text.removeprefix(_BAR) for text, _ in lines[at + 1 :])]
        )
    return shown, None


def _describe_missing(texts: list[str]) -> str:
    return f"… {format_count(sum(map(len, texts)), 'character')} on {format_count(len(texts), 'line')} are not shown"


def _get_command(ask: Ask) -> str:
    command = ask.call.input.get("command") if ask.call is not None else None
    return command if isinstance(command, str) else ""


def _render_input(ask: Ask) -> list[StyledLine]:
    """What the tool would be given: nobody can allow what they do not see."""
    if ask.call is None or ask.questions or ask.plan:
        return []
    command = _get_command(ask)
    lines = _quote_lines(command, "bold") if command else []
    # A change to a file is shown as a patch, and its texts once more would only be in the way.
    rest = {} if ask.diff is not None else {name: value for name, value in ask.call.input.items() if name != "command"}
    if not command and "command" in ask.call.input:
        rest["command"] = ask.call.input["command"]
    if command and _join_lines(command) in str(rest.get("description")):
        del rest["description"]  # it says the same once more
    for name, value in rest.items():
        lines += _render_parameter(
            name, value if isinstance(value, str) else _format_json(value), None if command else "bold"
        )
    return lines


def _render_parameter(name: str, text: str, colour: Colour | None) -> list[StyledLine]:
    if "\n" not in text:
        return [(f"  {name}: {text}", colour)]
    return [(f"  {name}:", colour), *_quote_lines(text, colour)]


def _quote_rest(rest: list[str], colour: Colour | None) -> list[StyledLine]:
    """The further lines of what began on a line of ours."""
    return _quote_lines("\n".join(rest), colour) if rest else []


def _quote_lines(text: str, colour: Colour | None) -> list[StyledLine]:
    return [(f"{_BAR}{line}", colour) for line in text.split("\n")]


def _render_trust_item(what: dict[str, Any]) -> list[StyledLine]:
    first, *rest = (str(what["text"]) if "text" in what else _format_json(what)).split("\n")
    return [(f"  - {first}", "bold"), *((f"{_BAR}{line}", "bold") for line in rest)]


def _format_reason(ask: Ask) -> str | None:
    """Why it is asked; the command stands above and is not said again."""
    reason, part = ask.reason, f"`{_join_lines(_get_command(ask))}`: "
    if reason and reason.startswith(part):
        return reason.removeprefix(part)
    return reason


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def name_answerer(ostler: "Ostler", client_id: str | None, name: str | None) -> str:
    """What people call whoever settled an ask; the id of a client that said no name."""
    if client_id == ostler.daemon.client_id:
        return "this terminal"
    # Our own command is called so wherever it runs, which tells nobody anything.
    return "another terminal" if name == "ostler (terminal)" else name or client_id or "somebody"
