"""The last messages of a conversation that is summarised: they stay as they are, word for word."""

from collections.abc import Sequence
from typing import Final

from ostler.server.engine.context.rows import Row, sum_tokens

_LEAST: Final = 2_000
_MOST: Final = 15_000


def compute_tail_tokens(window: int, rows: Sequence[Row]) -> int:
    """A quarter of the window within bounds; of a conversation that is short, a quarter of that."""
    return min(max(_LEAST, min(_MOST, window // 4)), sum_tokens(rows) // 4)


def find_tail(rows: Sequence[Row], most: int) -> int:
    """The index of the first row that stays, where the rest takes no more than so many tokens."""
    start, taken = len(rows), 0
    for at in range(len(rows) - 1, -1, -1):
        taken += rows[at].tokens
        if taken > most:
            break
        if _may_begin(rows, at):
            start = at
    return start


def _may_begin(rows: Sequence[Row], at: int) -> bool:
    """Whether what begins there is a conversation that the API takes: no result without its call."""
    if rows[at].role == "user":
        return not rows[at].has_results
    return at == 0 or rows[at - 1].role == "user"
