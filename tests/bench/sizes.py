"""The sizes of a run: how many sessions, readers, events and rounds each measure uses."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    starts: int
    """Starts of each kind; the median counts."""
    first_requests: int
    """Starts of each kind up to the first request to a model; the median counts."""
    sessions: int
    """Sessions in the database of a daemon that has been used."""
    settle_seconds: float
    """From the ready line until the imports in the background are done."""
    readers: int
    """Readers attached when memory is read."""
    create_seconds: float
    connections: tuple[int, ...]
    """Numbers of keep-alive connections that create sessions."""
    deliveries: int
    """Updates whose delivery to a reader is timed."""
    fan_out: tuple[int, ...]
    """Numbers of readers that events are broadcast to."""
    events: int
    """Events broadcast in one round."""
    fan_out_rounds: int
    """Rounds of the fan-out; the median counts."""
    replayed: int
    """Events stored before a reader asks for all of them."""
    replays: int
    pages: int
    """First pages of the list of sessions that are timed."""
    stopped_readers: int
    """Readers that stop reading."""
    stopped_updates: int
    """Updates made meanwhile."""
    stopped_bytes: int
    """How large each of those is."""
    relays: int
    """Messages whose deltas are timed."""
    histories: tuple[int, ...]
    """Lengths of the conversations in which round trips are timed."""
    trips: int
    """Round trips in a turn."""
    trip_rounds: int
    """Turns of each kind."""
    at_once: tuple[int, int]
    """Sessions that run commands at the same time, and sessions that read."""
    live_sessions: int
    """Sessions in memory when it is read."""
    agents: int
    """Agents in the background at the same time."""
    agent_starts: int
    """Agents, and plain sessions, whose first request is timed; the median counts."""
    unfinished: int
    """Sessions whose turns a crash cut short."""
    recoveries: int
    """Starts after such a crash; the median counts."""
    decisions: int
    """Decisions of each kind; the median counts."""
    tree_files: int
    """Files in the tree that is searched."""
    searches: int
    """Searches, edits and commands of each kind; the median counts."""
    pdf_pages: int
    flood_bytes: int
    """What one command prints."""
    tasks: int
    """Background tasks that print at the same time."""
    day_turns: int
    """Turns of the day whose cached share is counted."""
    input_bytes: int
    """What one call is given."""


FULL = Sizes(
    starts=9,
    first_requests=5,
    sessions=10_000,
    settle_seconds=3.0,
    readers=100,
    create_seconds=4.0,
    connections=(1, 20),
    deliveries=1500,
    fan_out=(1, 10, 50),
    events=20_000,
    fan_out_rounds=3,
    replayed=100_000,
    replays=3,
    pages=40,
    stopped_readers=8,
    stopped_updates=1200,
    stopped_bytes=48_000,
    relays=60,
    histories=(10, 1000, 2000),
    trips=12,
    trip_rounds=10,
    at_once=(10, 50),
    live_sessions=100,
    agents=100,
    agent_starts=20,
    unfinished=1000,
    recoveries=3,
    decisions=200,
    tree_files=100_000,
    searches=15,
    pdf_pages=2_000,
    flood_bytes=200_000_000,
    tasks=100,
    day_turns=200,
    input_bytes=10_000_000,
)

TINY = Sizes(
    starts=1,
    first_requests=1,
    sessions=40,
    settle_seconds=0.0,
    readers=3,
    create_seconds=0.1,
    connections=(2,),
    deliveries=5,
    fan_out=(2,),
    events=200,
    fan_out_rounds=1,
    replayed=300,
    replays=1,
    pages=2,
    stopped_readers=2,
    stopped_updates=10,
    stopped_bytes=500,
    relays=2,
    histories=(4, 10),
    trips=2,
    trip_rounds=1,
    at_once=(2, 3),
    live_sessions=2,
    agents=3,
    agent_starts=2,
    unfinished=5,
    recoveries=1,
    decisions=3,
    tree_files=500,
    searches=1,
    pdf_pages=40,
    flood_bytes=2_000_000,
    tasks=3,
    day_turns=3,
    input_bytes=100_000,
)
"""Enough to see that every measure still works."""
