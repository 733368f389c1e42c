"""The table of measures, by name."""

from collections.abc import Callable
from typing import Final

from tests.bench.agents import measure_agents
from tests.bench.contexts import measure_cached_share, measure_compaction
from tests.bench.creates import measure_creates
from tests.bench.decisions import measure_decisions
from tests.bench.deliveries import measure_deliveries, measure_stopped_readers
from tests.bench.fan_out import measure_fan_out
from tests.bench.first_requests import measure_first_request
from tests.bench.listings import measure_listings
from tests.bench.many_sessions import measure_live_sessions, measure_sessions_at_once
from tests.bench.outputs import measure_output
from tests.bench.processes import Bench
from tests.bench.recoveries import measure_recovery
from tests.bench.relays import measure_relay
from tests.bench.replays import measure_replay
from tests.bench.round_trips import measure_many_tools, measure_round_trips
from tests.bench.starts import measure_memory, measure_start
from tests.bench.table import Row
from tests.bench.tools import measure_files_and_shell, measure_search

MEASURES: Final[dict[str, Callable[[Bench], list[Row]]]] = {
    "start": measure_start,
    "first-request": measure_first_request,
    "memory": measure_memory,
    "create": measure_creates,
    "delivery": measure_deliveries,
    "fan-out": measure_fan_out,
    "replay": measure_replay,
    "list": measure_listings,
    "stopped-reader": measure_stopped_readers,
    "relay": measure_relay,
    "round-trip": measure_round_trips,
    "many-tools": measure_many_tools,
    "compaction": measure_compaction,
    "cached-share": measure_cached_share,
    "at-once": measure_sessions_at_once,
    "live-sessions": measure_live_sessions,
    "agents": measure_agents,
    "recovery": measure_recovery,
    "decisions": measure_decisions,
    "search": measure_search,
    "files-and-shell": measure_files_and_shell,
    "output": measure_output,
}
