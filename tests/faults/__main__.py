"""`python -m tests.faults`: every scenario, hundreds of kills under load, in turns, among tasks, and a table."""

import argparse
import functools
import logging
import secrets
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from tests.faults.kills import kills
from tests.faults.resource_kills import resource_kills
from tests.faults.rows import Row, table
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.task_kills import task_kills
from tests.faults.turn_kills import turn_kills


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Kill, fill and damage a daemon.")
    parser.add_argument("--kills", type=int, default=200, help="how often to kill a daemon, under load and in turns")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="for the same kills again")
    return parser.parse_args()


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _attempt(scenario: Scenario, name: str) -> Row:
    """A scenario that breaks is a failed row, and the others still run."""
    _say(name)
    with tempfile.TemporaryDirectory(prefix="ostler-faults-") as folder:
        try:
            return scenario(Path(folder))
        except Exception as error:  # whatever it is, the table has to say so
            traceback.print_exc()
            return Row(name, "broke off", problems=(f"{type(error).__name__}: {error}",))


def main() -> int:
    arguments = _arguments()
    # What a scenario has started and mounted goes with it, also when somebody ends us politely.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # The scripted model speaks on for a moment when a daemon has died; asyncio remarks on each word.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    sys.stdout.write(f"seed {arguments.seed}\n")
    sys.stdout.flush()
    killing = functools.partial(kills, count=arguments.kills, seed=arguments.seed, say=_say)
    at_work = functools.partial(turn_kills, count=arguments.kills, seed=arguments.seed, say=_say)
    among_tasks = functools.partial(task_kills, count=arguments.kills, seed=arguments.seed, say=_say)
    of_watchers = functools.partial(resource_kills, count=arguments.kills, seed=arguments.seed, say=_say)
    named: list[tuple[Scenario, str]] = [
        (killing, "SIGKILL under load"),
        (at_work, "SIGKILL in turns"),
        (among_tasks, "SIGKILL among tasks"),
        (of_watchers, "SIGKILL of who watches a resource"),
    ]
    named += [(scenario, scenario.__name__.replace("_", " ")) for scenario in SCENARIOS]
    rows = [_attempt(scenario, name) for scenario, name in named]
    _say("")
    sys.stdout.write(table(rows) + "\n")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
