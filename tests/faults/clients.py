"""The clients of the daemon while it is killed again and again: writers, and readers of all kinds."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller
from tests.faults.event_reader import EventReader
from tests.faults.ledger import Ledger, State
from tests.faults.writers import Writer
from tests.support.daemon import Daemon

WRITERS: Final = 4
FOLLOWERS: Final = 3
"""Readers of every session that resume where they were."""
WATCHERS: Final = 2
"""Readers of one session that resume where they were, until it is deleted."""
REPLAYS: Final = 2
"""Readers that replay from the start of the log after each kill."""
_HISTORY_EVENTS: Final = 2000


@dataclass(slots=True)
class Clients:
    folder: Path
    random: random.Random
    writers: list[Writer]
    followers: list[EventReader] = field(default_factory=lambda: [EventReader() for _ in range(FOLLOWERS)])
    watchers: list[EventReader] = field(default_factory=list)
    """Those of deleted sessions included."""
    history: Ledger = field(default_factory=Ledger)

    @classmethod
    def create(cls, folder: Path, seed: int) -> "Clients":
        writers = [Writer(f"w{number}", folder, seed) for number in range(WRITERS)]
        return cls(folder, random.Random(seed), writers)

    @property
    def ledgers(self) -> list[Ledger]:
        return [self.history, *(writer.ledger for writer in self.writers)]

    @property
    def states(self) -> dict[str, State]:
        """Every session as it was acknowledged."""
        return {key: state for ledger in self.ledgers for key, state in ledger.states.items()}

    @property
    def last_acknowledged(self) -> int:
        """The highest cursor that any writer received."""
        return max((cursor for ledger in self.ledgers for cursor, _ in ledger.cursors[-1:]), default=0)

    def write_history(self, daemon: Daemon) -> None:
        """Write a log that takes a while to replay, so that kills happen during replays."""
        with Caller(daemon) as caller:
            session_id = caller.call("session/create", cwd=str(self.folder), metadata={"number": 0})["id"]
            for first in range(1, _HISTORY_EVENTS, 50):
                updates = [{"session_id": session_id, "metadata": {"number": first + step}} for step in range(50)]
                caller.call_batch([("session/update", update) for update in updates])
        self.history.states[session_id] = State(None, _HISTORY_EVENTS, archived=False)

    def refresh_watchers(self, daemon: Daemon) -> list[EventReader]:
        """Readers of single sessions, with new ones for those whose session was deleted."""
        current = [reader for reader in self.watchers if not reader.gone]
        others = sorted(self.states.keys() - {reader.session_id for reader in current})
        with Caller(daemon) as caller:
            for session_id in self.random.sample(others, min(len(others), WATCHERS - len(current))):
                cursor = int(caller.call("session/get", session_id=session_id)["cursor"])
                current.append(EventReader(session_id, after=cursor))
                self.watchers.append(current[-1])
        return current

    def mark_ends(self, daemon: Daemon) -> list[tuple[EventReader, int]]:
        """The cursor at which each reader is to end; for a reader of one session, that of a last change of it."""
        ends: list[tuple[EventReader, int]] = []
        with Caller(daemon) as caller:
            for reader in self.watchers:
                if reader.session_id in self.states:
                    answer = caller.call("session/update", session_id=reader.session_id, title="the end")
                    ends.append((reader, int(answer["cursor"])))
            head = int(caller.call("server/stats")["cursor"])
        return [*ends, *((reader, head) for reader in self.followers)]
