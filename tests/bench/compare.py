"""`python -m tests.bench.compare OLD`: the bench of this tree and of an older one, in turn, and how they differ.

OLD is a checkout with its own `.venv` (`git worktree add ../old COMMIT && make -C ../old install`). One number of a
busy machine says nothing: each round runs every measure in both trees, one after the other, in another order in every
second round. A row that only one of the trees has is left out. It exits with 1 where a row is slower by more than
`--most` percent.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.measures import MEASURES
from tests.support.repository import ROOT

_RUN_SECONDS: Final = 120
_MEASURES: Final = ("create", "fan-out", "round-trip")


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of the bench, in both trees."""

    measure: str
    unit: str
    more_is_better: bool
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    @property
    def slower_percent(self) -> float:
        """How much slower the new tree is, by the medians; less than 0 where it is faster."""
        before, after = median(self.old), median(self.new)
        if min(before, after) <= 0:
            return 0.0
        return ((before / after if self.more_is_better else after / before) - 1) * 100


def compare(
    old: Path, new: Path, measures: Sequence[str], *, rounds: int, seconds: float
) -> tuple[list[Compared], int]:
    """The rows that both trees have, and how many rounds there was time for: one at least."""
    found: dict[str, Compared] = {}
    samples: dict[tuple[str, bool], list[float]] = defaultdict(list)
    began, done = time.monotonic(), 0
    while done < rounds and (not done or (time.monotonic() - began) * (done + 1) / done < seconds):
        for measure in measures:
            for is_old in (True, False) if done % 2 else (False, True):
                for row in _run_bench(old if is_old else new, measure):
                    name = str(row["measure"])
                    # A rate is the only thing of which more is better.
                    found.setdefault(name, Compared(name, str(row["unit"]), more_is_better=row["unit"] == "/s"))
                    samples[name, is_old].append(row["ours"])
        done += 1
        sys.stderr.write(f"round {done} of {rounds}, {time.monotonic() - began:.0f} s\n")
    for name, compared in found.items():
        compared.old.extend(samples[name, True])
        compared.new.extend(samples[name, False])
    return [compared for compared in found.values() if compared.old and compared.new], done


def _run_bench(tree: Path, measure: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="ostler-compare-") as folder:
        numbers = Path(folder) / "numbers.json"
        command = [str(tree / ".venv/bin/python"), "-m", "tests.bench", "--only", measure, "--json", str(numbers)]
        subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL, timeout=_RUN_SECONDS)
        rows: list[dict[str, Any]] = json.loads(numbers.read_text())["measures"][measure]
        return rows


def render(rows: Sequence[Compared], rounds: int, most: float) -> str:
    width = max((len(row.measure) for row in rows), default=0)
    lines = [f"{'medians of ' + str(rounds) + ' rounds':<{width}}  {'old':>12}  {'new':>12}  slower by"]
    for row in rows:
        mark = "  over" if row.slower_percent > most else ""
        numbers = (f"{median(samples):,.2f} {row.unit}" for samples in (row.old, row.new))
        lines.append(
            "  ".join([f"{row.measure:<{width}}", *(f"{each:>12}" for each in numbers)])
            + f"  {row.slower_percent:+7.1f}%{mark}"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description="Compare two trees.")
    parser.add_argument("old", type=Path, help="a checkout with its own .venv")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="this measure; may be given again")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=900.0, help="begin no round that would end later")
    parser.add_argument("--most", type=float, default=5.0, help="percent that a row may be slower by")
    given = parser.parse_args()
    rows, rounds = compare(
        given.old.resolve(), ROOT, given.only or _MEASURES, rounds=given.rounds, seconds=given.seconds
    )
    sys.stdout.write(render(rows, rounds, given.most))
    return 1 if any(row.slower_percent > given.most for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
