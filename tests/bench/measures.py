"""Everything that is measured, by name."""

from collections.abc import Callable
from typing import Final

from tests.bench.creates import create
from tests.bench.decisions import decisions
from tests.bench.deliveries import deliver, stop_reading
from tests.bench.fan_out import fan_out
from tests.bench.listings import list_sessions
from tests.bench.many_sessions import at_once, weigh
from tests.bench.outputs import output
from tests.bench.processes import Bench
from tests.bench.recoveries import recover
from tests.bench.relays import relay
from tests.bench.replays import replay
from tests.bench.round_trips import round_trip
from tests.bench.starts import memory, start
from tests.bench.table import Row
from tests.bench.tools import files_and_shell, search

MEASURES: Final[dict[str, Callable[[Bench], list[Row]]]] = {
    "start": start,
    "memory": memory,
    "create": create,
    "delivery": deliver,
    "fan-out": fan_out,
    "replay": replay,
    "list": list_sessions,
    "stopped-reader": stop_reading,
    "relay": relay,
    "round-trip": round_trip,
    "at-once": at_once,
    "live-sessions": weigh,
    "recovery": recover,
    "decisions": decisions,
    "search": search,
    "files-and-shell": files_and_shell,
    "output": output,
}
