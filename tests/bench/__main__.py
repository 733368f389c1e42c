"""`python -m tests.bench`: measures the daemon, and prints each number beside a floor from the same run.

It exits with 1 only when a measure broke, whatever the numbers are.
"""

import argparse
import json
import platform
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import Final

from tests.bench.homes import Homes
from tests.bench.measures import MEASURES
from tests.bench.processes import Bench
from tests.bench.sizes import FULL
from tests.bench.table import Row, render_table

_MEASURE_SECONDS: Final = 90
"""A measure that takes longer hangs, and is ended."""


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure the daemon.")
    parser.add_argument("--only", choices=list(MEASURES), help="run this measure alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers here")
    return parser.parse_args()


def _raise_overdue(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"the measure took more than {_MEASURE_SECONDS} s")


def _run_measure(name: str, bench: Bench) -> list[Row] | None:
    """The rows of one measure, or None where it broke."""
    signal.alarm(_MEASURE_SECONDS)
    try:
        return MEASURES[name](bench)
    except Exception:  # whatever it is: the other measures are still worth having
        sys.stderr.write(f"bench: {name} broke\n{traceback.format_exc()}")
        return None
    finally:
        signal.alarm(0)


def main() -> int:
    arguments = _parse_arguments()
    signal.signal(signal.SIGALRM, _raise_overdue)
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder:
        bench = Bench(Path(folder), FULL, Homes(Path(folder)))
        results = {name: _run_measure(name, bench) for name in ([arguments.only] if arguments.only else MEASURES)}
    rows = [row for measured in results.values() for row in measured or []]
    sys.stdout.write(render_table(rows))
    if arguments.json:
        machine = {"python": platform.python_version(), "system": platform.platform()}
        numbers = {name: [row.as_json() for row in measured or []] for name, measured in results.items()}
        arguments.json.write_text(json.dumps({"machine": machine, "measures": numbers}, indent=2) + "\n")
    return 1 if None in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
