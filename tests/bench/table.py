"""The table that `make bench` prints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_HEADINGS: Final = ("measure", "ours", "floor", "ratio", "aim", "met?")
_LEGEND: Final = (
    "floor: a bare process doing the same work in this run. ratio: our cost in floors; 1.0 would be perfect."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One number of ours beside the same number of a bare process."""

    measure: str
    unit: str
    ours: float
    floor: float
    aim: float | None = None
    more_is_better: bool = False
    samples: Sequence[float] = field(default_factory=list)
    """What `ours` was taken from, where it is a median."""

    @property
    def ratio(self) -> float | None:
        over, under = (self.floor, self.ours) if self.more_is_better else (self.ours, self.floor)
        # There is no ratio to a floor of zero, as of memory that did not grow.
        return over / under if round(under, 2) > 0 else None

    @property
    def met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.ours >= self.aim if self.more_is_better else self.ours <= self.aim

    def as_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "unit": self.unit,
            "ours": self.ours,
            "floor": self.floor,
            "ratio": self.ratio,
            "aim": self.aim,
            "met": self.met,
            "samples": list(self.samples),
        }


def render_table(rows: Iterable[Row]) -> str:
    """All rows as aligned text, the first column to the left and the numbers to the right."""
    cells = [_HEADINGS, *(_format_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    lines = [_align(line, widths) for line in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "", _LEGEND]) + "\n"


def _format_cells(row: Row) -> tuple[str, ...]:
    ratio = f"{row.ratio:.1f}" if row.ratio is not None else ""
    aim = _format_number(row.aim, row.unit) if row.aim is not None else ""
    met = {None: "", True: "yes", False: "NO"}[row.met]
    return (row.measure, _format_number(row.ours, row.unit), _format_number(row.floor, row.unit), ratio, aim, met)


def _format_number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{text} {unit}"


def _align(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = line
    return "  ".join(
        [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
    )
