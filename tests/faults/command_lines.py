"""Generated command lines: what real bash makes of those that may run unasked is compared with what we say of them."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.rows import Findings, Row
from tests.tools.commands.differential import Comparison, build_canary, compare_batch

_LINES = 2_500


def compare_command_lines(folder: Path, *, seconds: float, seed: int, report: Callable[[str], None]) -> Row:
    """Compares batch after batch, each with a seed of its own, until the time is over."""
    project, found, findings = build_canary(folder), Comparison(), Findings()
    seeds = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not found.problems:
        compare_batch(seeds.randrange(1_000_000_000), _LINES, project, found)
        report(f"command lines: {found.generated}, {len(found.problems)} problems")
    for problem in found.problems:
        findings.expect(False, problem)
    return findings.build_row(
        "command lines by bash", f"{found.generated} lines", read_only=found.read_only, by_a_rule=found.ruled, seed=seed
    )
