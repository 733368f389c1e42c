"""`python -m tests.faults`: every scenario, and hundreds of kills (under load, in turns, among tasks and agents)."""

import argparse
import functools
import logging
import secrets
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from tests.faults.agent_kills import kill_among_agents
from tests.faults.command_lines import compare_command_lines
from tests.faults.kills import kill_under_load
from tests.faults.resource_kills import kill_during_watch
from tests.faults.rows import Row, render_table
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.task_kills import kill_during_tasks
from tests.faults.terminal_keys import press_keys
from tests.faults.turn_kills import kill_during_turns


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Kill, fill and damage a daemon.")
    parser.add_argument("--kills", type=int, default=200, help="how often to kill a daemon, under load and in turns")
    parser.add_argument("--line-seconds", type=float, default=600, help="how long to compare command lines with bash")
    parser.add_argument("--key-seconds", type=float, default=300, help="how long to press keys in a chat")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="for the same kills again")
    return parser.parse_args()


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _attempt(scenario: Scenario, name: str) -> Row:
    """A scenario that breaks is a failed row, and the others still run."""
    _show_progress(name)
    with tempfile.TemporaryDirectory(prefix="ostler-faults-") as folder:
        try:
            return scenario(Path(folder))
        except Exception as error:  # whatever it is, the table has to say so
            traceback.print_exc()
            return Row(name, "broke off", problems=(f"{type(error).__name__}: {error}",))


def main() -> int:
    arguments = _parse_arguments()
    # On SIGTERM too, a scenario stops what it has started, and unmounts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # The scripted model still writes for a moment after a daemon has died, and asyncio warns of each write.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    sys.stdout.write(f"seed {arguments.seed}\n")
    sys.stdout.flush()
    under_load = functools.partial(kill_under_load, count=arguments.kills, seed=arguments.seed, report=_show_progress)
    in_turns = functools.partial(kill_during_turns, count=arguments.kills, seed=arguments.seed, report=_show_progress)
    among_tasks = functools.partial(
        kill_during_tasks, count=arguments.kills, seed=arguments.seed, report=_show_progress
    )
    among_agents = functools.partial(
        kill_among_agents, count=arguments.kills // 2, seed=arguments.seed, report=_show_progress
    )
    while_watching = functools.partial(
        kill_during_watch, count=arguments.kills, seed=arguments.seed, report=_show_progress
    )
    by_bash = functools.partial(
        compare_command_lines, seconds=arguments.line_seconds, seed=arguments.seed, report=_show_progress
    )
    by_keys = functools.partial(press_keys, seconds=arguments.key_seconds, seed=arguments.seed, report=_show_progress)
    scenarios: list[tuple[Scenario, str]] = [
        (under_load, "SIGKILL under load"),
        (in_turns, "SIGKILL in turns"),
        (among_tasks, "SIGKILL among tasks"),
        (among_agents, "SIGKILL among agents"),
        (while_watching, "SIGKILL of who watches a resource"),
        (by_bash, "command lines by bash"),
        (by_keys, "keys and resizes"),
    ]
    scenarios += [(scenario, scenario.__name__.replace("_", " ")) for scenario in SCENARIOS]
    rows = [_attempt(scenario, name) for scenario, name in scenarios]
    _show_progress("")
    sys.stdout.write(render_table(rows) + "\n")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
