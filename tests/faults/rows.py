"""The report of a scenario: a row of the table, and the problems that were found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_MAX_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: what was done, what was measured, and why it failed, if it did."""

    name: str
    done: str
    numbers: dict[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


class Findings:
    """Collects failed expectations, so that one run shows everything that is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds and len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(otherwise)

    def build_row(self, name: str, done: str, **numbers: object) -> Row:
        return Row(name, done, numbers, tuple(self.problems))


def render_table(rows: Sequence[Row]) -> str:
    """The rows, aligned, then the reasons of those that failed."""
    cells = [("scenario", "what was done", "numbers", ""), *(_format_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    lines = ["  ".join(f"{text:<{width}}" for text, width in zip(line, [*widths, 0], strict=True)) for line in cells]
    lines.insert(1, "  ".join("-" * width for width in [*widths, 6]))
    reasons = [f"{row.name}: {problem}" for row in rows for problem in row.problems]
    return "\n".join(line.rstrip() for line in [*lines, *([""] if reasons else []), *reasons])


def _format_cells(row: Row) -> tuple[str, str, str, str]:
    numbers = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.numbers.items())
    return row.name, row.done, numbers, "ok" if row.ok else "FAILED"
