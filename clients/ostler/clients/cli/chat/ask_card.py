"""An ask as a card above the line: drawn for as long as it waits, and gone when it is answered."""

from typing import Final

from ostler.clients.cli.chat.ask_prompt import AskPrompt
from ostler.clients.cli.output import format_count
from ostler.clients.cli.render.blocks.rows import Row, fit_row, make_row, wrap_text

_END_ROWS: Final = 6
"""Where there is not room for all, so many of the last rows stay: those with the keys."""


def render_card(ask_prompt: AskPrompt, columns: int, rows: int, waiting: int) -> list[Row]:
    """As much as there is room for; the keys always."""
    edge = "red" if ask_prompt.ask.destructive else "yellow"
    card = [row for text, colour in ask_prompt.render() for row in wrap_text(text, max(1, columns - 2), colour or "")]
    if waiting > 1:
        card.insert(0, make_row((f"1 of {format_count(waiting, 'ask')}", "dim")))
    if len(card) > rows:
        left = max(0, rows - _END_ROWS - 1)
        missing = make_row((f"… {format_count(len(card) - left - _END_ROWS, 'row')} do not fit: v shows all", "yellow"))
        card = [*card[:left], missing, *card[-_END_ROWS:]][-max(1, rows) :]
    return [fit_row((*make_row(("▌ ", edge)), *row), columns) for row in card]
