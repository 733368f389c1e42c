"""Everybody who uses the daemon while it is killed again and again: writers, and readers of all kinds."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller
from tests.faults.journal import Journal
from tests.faults.ledger import Ledger, State
from tests.faults.writers import Writer
from tests.support.daemon import Daemon

WRITERS: Final = 4
FOLLOWERS: Final = 3
"""Readers of everything that go on where they were."""
WATCHERS: Final = 2
"""Readers of one session that go on where they were, until it is deleted."""
REPLAYS: Final = 2
"""Readers that begin at the start of the log after each kill."""
_HISTORY: Final = 2000


@dataclass(slots=True)
class Crowd:
    folder: Path
    random: random.Random
    writers: list[Writer]
    followers: list[Journal] = field(default_factory=lambda: [Journal() for _ in range(FOLLOWERS)])
    watchers: list[Journal] = field(default_factory=list)
    """Those of deleted sessions included."""
    history: Ledger = field(default_factory=Ledger)

    @classmethod
    def gather(cls, folder: Path, seed: int) -> "Crowd":
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
        """The highest cursor that any writer was given."""
        return max((cursor for ledger in self.ledgers for cursor, _ in ledger.cursors[-1:]), default=0)

    def write_history(self, daemon: Daemon) -> None:
        """A log that takes a while to replay, so that kills land in the middle of replays."""
        with Caller(daemon) as caller:
            session_id = caller.call("session/create", cwd=str(self.folder), metadata={"number": 0})["id"]
            for first in range(1, _HISTORY, 50):
                updates = [{"session_id": session_id, "metadata": {"number": first + step}} for step in range(50)]
                caller.batch([("session/update", update) for update in updates])
        self.history.states[session_id] = State(None, _HISTORY, archived=False)

    def current_watchers(self, daemon: Daemon) -> list[Journal]:
        """Readers of single sessions, with new ones for those whose session is gone."""
        current = [journal for journal in self.watchers if not journal.gone]
        others = sorted(self.states.keys() - {journal.session_id for journal in current})
        with Caller(daemon) as caller:
            for session_id in self.random.sample(others, min(len(others), WATCHERS - len(current))):
                cursor = int(caller.call("session/get", session_id=session_id)["cursor"])
                current.append(Journal(session_id, after=cursor))
                self.watchers.append(current[-1])
        return current

    def ends(self, daemon: Daemon) -> list[tuple[Journal, int]]:
        """Where each reader is to end; for a reader of one session a change of that session marks the end."""
        ends: list[tuple[Journal, int]] = []
        with Caller(daemon) as caller:
            for journal in self.watchers:
                if journal.session_id in self.states:
                    answer = caller.call("session/update", session_id=journal.session_id, title="the end")
                    ends.append((journal, int(answer["cursor"])))
            head = int(caller.call("server/stats")["cursor"])
        return [*ends, *((journal, head) for journal in self.followers)]
