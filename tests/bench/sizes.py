"""How much of everything a run does."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    starts: int
    """Starts of each kind; the median counts."""
    sessions: int
    """Sessions in the database of a daemon that has been used."""
    settle_seconds: float
    """From the ready line until the imports in the background are done."""
    readers: int
    """Readers attached when memory is looked at."""
    create_seconds: float
    connections: tuple[int, ...]
    """Numbers of keep-alive connections that create sessions."""
    deliveries: int
    """Updates whose way to a reader is timed."""
    fan_out: tuple[int, ...]
    """Numbers of readers that events are spread to."""
    events: int
    """Events spread in one go."""
    spreads: int
    """How often; the median counts."""
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


FULL = Sizes(
    starts=9,
    sessions=10_000,
    settle_seconds=3.0,
    readers=100,
    create_seconds=4.0,
    connections=(1, 20),
    deliveries=1500,
    fan_out=(1, 10, 50),
    events=20_000,
    spreads=3,
    replayed=100_000,
    replays=3,
    pages=40,
    stopped_readers=8,
    stopped_updates=1200,
    stopped_bytes=48_000,
)

TINY = Sizes(
    starts=1,
    sessions=40,
    settle_seconds=0.0,
    readers=3,
    create_seconds=0.1,
    connections=(2,),
    deliveries=5,
    fan_out=(2,),
    events=200,
    spreads=1,
    replayed=300,
    replays=1,
    pages=2,
    stopped_readers=2,
    stopped_updates=10,
    stopped_bytes=500,
)
"""Enough to see that every measure still works."""
