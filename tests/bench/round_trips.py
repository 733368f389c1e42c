"""From the last byte of the model's message to the first byte of our next request."""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.bench.processes import Bench, Child
from tests.bench.table import Row
from tests.bench.turns import daemon_with_model, run, run_bare, scripted_model, sessions_by_title
from tests.support.daemon import Daemon

_OVER_FLOOR_MS: Final = 5.0
_AIMS_MS: Final = {"read": 6.0, "ten": 12.0}
_NAMES: Final = {"read": "one Read", "ten": "ten Reads", "bash": "Bash `true`"}
FLAT: Final = 1.1
"""How much longer a round trip may take in a long conversation."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Milliseconds by conversation, turn by turn."""

    ours: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    bare: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))


def round_trip(bench: Bench) -> list[Row]:
    """Each kind at each length in turn, ours and bare, so that a busy moment of the machine meets all of them."""
    sizes = bench.sizes
    conversations = {f"{kind}:{count}": count for kind in _NAMES for count in sizes.histories}
    samples = _Samples()
    with scripted_model(bench) as model, bench.child("bare_agent", model.first) as agent:
        home = bench.homes.with_histories(bench.folder / "stable", conversations)
        with daemon_with_model(bench, home, model) as daemon:
            ids = sessions_by_title(daemon)
            for number in range(sizes.trip_rounds):
                # There and back: a machine that becomes busier meets the short ones and the long ones alike.
                for name, count in list(conversations.items())[:: -1 if number % 2 else 1]:
                    _measure(daemon, ids[name], model, name, sizes.trips, samples.ours)
                    run_bare(agent, [name], sizes.trips + 1, count)
                    _collect(model, name, samples.bare)
    return [row for kind in _NAMES for row in _rows(kind, sizes.histories, samples)]


def _measure(
    daemon: Daemon, session_id: str, model: Child, name: str, trips: int, into: dict[str, list[list[float]]]
) -> None:
    run(daemon, session_id, "go on", trips + 1)
    _collect(model, name, into)


def _collect(model: Child, name: str, into: dict[str, list[list[float]]]) -> None:
    told = model.ask({})
    if told["failures"]:
        raise RuntimeError(f"the model refused: {told['failures']}")
    # The first of a turn brings its session back into memory, where it is not.
    into[name].append([trip["ms"] for trip in told["trips"]])


def _rows(kind: str, histories: tuple[int, ...], samples: _Samples) -> list[Row]:
    rows: list[Row] = []
    first, *longer = (f"{kind}:{count}" for count in histories)
    for count in histories:
        name = f"{kind}:{count}"
        ours, bare = _all(samples.ours[name]), _all(samples.bare[name])
        aim = _AIMS_MS.get(kind, median(bare) + _OVER_FLOOR_MS) if name == first else None
        rows.append(
            Row(f"round trip, {_NAMES[kind]}, message {count:,}", "ms", median(ours), median(bare), aim, samples=ours)
        )
    for count, name in zip(histories[1:], longer, strict=True):
        measure = f"round trip, {_NAMES[kind]}, message {count:,} against {histories[0]}"
        ours, bare = _against(samples.ours, name, first), _against(samples.bare, name, first)
        rows.append(Row(measure, "×", median(ours), median(bare), FLAT, samples=ours))
    return rows


def _against(turns: dict[str, list[list[float]]], name: str, first: str) -> list[float]:
    """How much longer the trips took than the short ones of the same round, which met the same machine."""
    return [median(long) / median(short) for long, short in zip(turns[name], turns[first], strict=True)]


def _all(turns: list[list[float]]) -> list[float]:
    return [trip for turn in turns for trip in turn]
