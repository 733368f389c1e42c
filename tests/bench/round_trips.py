"""Measures the time from the last byte of the model's message to the first byte of our next request."""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.bench.processes import Bench, Child
from tests.bench.table import Row
from tests.bench.turns import (
    list_sessions_by_title,
    run_bare_turns,
    run_daemon_with_model,
    run_scripted_model,
    run_turn,
)
from tests.support.daemon import Daemon
from tests.support.many_tools import install

_OVER_FLOOR_MS: Final = 5.0
_AIMS_MS: Final = {"read": 6.0, "ten": 12.0}
_NAMES: Final = {"read": "one Read", "ten": "ten Reads", "bash": "Bash `true`"}
_FURTHER_TOOLS: Final = 60
_TOOLS_MS: Final = 0.5
"""How much longer a round trip may take with these."""
MAX_SLOWDOWN: Final = 1.1
"""How much longer a round trip may take in a long conversation."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Milliseconds by conversation, turn by turn."""

    ours: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    bare: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))


def measure_round_trips(bench: Bench) -> list[Row]:
    """Each kind at each length in turn, ours and bare, so that a busy moment of the machine slows all of them."""
    sizes = bench.sizes
    conversations = {f"{kind}:{count}": count for kind in _NAMES for count in sizes.histories}
    samples = _Samples()
    with run_scripted_model(bench) as model, bench.start_child("bare_agent", model.first_answer) as agent:
        home = bench.homes.create_with_histories(bench.folder / "stable", conversations)
        with run_daemon_with_model(bench, home, model) as daemon:
            ids = list_sessions_by_title(daemon)
            for number in range(sizes.trip_rounds):
                # Forwards and backwards: a machine that becomes busier slows short and long conversations alike.
                for name, count in list(conversations.items())[:: -1 if number % 2 else 1]:
                    _measure(daemon, ids[name], model, name, sizes.trips, samples.ours)
                    run_bare_turns(agent, [name], sizes.trips + 1, count)
                    _collect(model, name, samples.bare)
    return [row for kind in _NAMES for row in _build_rows(kind, sizes.histories, samples)]


def measure_many_tools(bench: Bench) -> list[Row]:
    """One Read in a long conversation with many further tools, all sent; the floor has only the usual ones."""
    count = bench.sizes.histories[-1]
    name = f"read:{count}"
    usual: dict[str, list[list[float]]] = defaultdict(list)
    many: dict[str, list[list[float]]] = defaultdict(list)
    plug_in = install(bench.folder / "ledger", _FURTHER_TOOLS)
    homes = [bench.homes.create_with_histories(bench.folder / "stable", {name: count}) for _ in range(2)]
    with (
        run_scripted_model(bench) as model,
        run_daemon_with_model(bench, homes[0], model) as plain,
        run_daemon_with_model(bench, homes[1], model, OSTLER_TOOLS__DEFER="never", **plug_in) as loaded,
    ):
        runs = [
            (daemon, list_sessions_by_title(daemon)[name], into) for daemon, into in ((plain, usual), (loaded, many))
        ]
        for number in range(bench.sizes.trip_rounds):
            for daemon, session_id, into in runs[:: -1 if number % 2 else 1]:
                _measure(daemon, session_id, model, name, bench.sizes.trips, into)
        sent = len(loaded.call("tool/list", session_id=runs[1][1], limit=500)["tools"])
    if sent <= _FURTHER_TOOLS:
        raise RuntimeError(f"only {sent} tools were there")
    ours, floor = _flatten(many[name]), median(_flatten(usual[name]))
    measure = f"round trip, one Read, message {count:,}, {_FURTHER_TOOLS} tools more"
    return [Row(measure, "ms", median(ours), floor, floor + _TOOLS_MS, samples=ours)]


def _measure(
    daemon: Daemon, session_id: str, model: Child, name: str, trips: int, into: dict[str, list[list[float]]]
) -> None:
    run_turn(daemon, session_id, "go on", trips + 1)
    _collect(model, name, into)


def _collect(model: Child, name: str, into: dict[str, list[list[float]]]) -> None:
    answer = model.call({})
    if answer["failures"]:
        raise RuntimeError(f"the model refused: {answer['failures']}")
    # The first one of a turn loads its session, where it is not in memory.
    into[name].append([trip["ms"] for trip in answer["trips"]])


def _build_rows(kind: str, histories: tuple[int, ...], samples: _Samples) -> list[Row]:
    rows: list[Row] = []
    first, *longer = (f"{kind}:{count}" for count in histories)
    for count in histories:
        name = f"{kind}:{count}"
        ours, bare = _flatten(samples.ours[name]), _flatten(samples.bare[name])
        aim = _AIMS_MS.get(kind, median(bare) + _OVER_FLOOR_MS) if name == first else None
        rows.append(
            Row(f"round trip, {_NAMES[kind]}, message {count:,}", "ms", median(ours), median(bare), aim, samples=ours)
        )
    for count, name in zip(histories[1:], longer, strict=True):
        measure = f"round trip, {_NAMES[kind]}, message {count:,} against {histories[0]}"
        ours, bare = _compute_slowdowns(samples.ours, name, first), _compute_slowdowns(samples.bare, name, first)
        rows.append(Row(measure, "×", median(ours), median(bare), MAX_SLOWDOWN, samples=ours))
    return rows


def _compute_slowdowns(turns: dict[str, list[list[float]]], name: str, first: str) -> list[float]:
    """How much longer the trips took than those of the short conversation in the same round, on a machine as busy."""
    return [median(long) / median(short) for long, short in zip(turns[name], turns[first], strict=True)]


def _flatten(turns: list[list[float]]) -> list[float]:
    return [trip for turn in turns for trip in turn]
