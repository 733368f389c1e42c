"""A disk without room: the truth to every caller, reads as before, and recovery by itself."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller, Refused
from tests.faults.database import check_database
from tests.faults.ledger import Change, Ledger, State, stored_states
from tests.faults.replay import compare_cursors, whole_log
from tests.faults.rooms import Room, limited_files, small_disk
from tests.faults.rows import Findings, Row
from tests.support.daemon import wait_until

_WRITERS: Final = 3
_BULK: Final = "x" * 20_000
_HEAL_SECONDS: Final = 15.0


class _Filler:
    """A writer of one session that goes on until it is refused."""

    def __init__(self, room: Room) -> None:
        self.ledger = Ledger()
        params = {"cwd": "/", "title": "full", "metadata": {"number": 0}, "idempotency_key": f"{id(self)}"}
        with Caller(room.daemon) as caller:
            self.ledger.make(caller, Change("session/create", params, State("full", 0, archived=False)))

    def fill(self, room: Room) -> list[str]:
        """What the refusals were called: of the first write that failed, and of the next."""
        return [self._until_refused(room), self._until_refused(room)]

    def _until_refused(self, room: Room) -> str:
        with Caller(room.daemon) as caller:
            try:
                while True:
                    self.write(caller)
            except Refused as refused:
                return str(refused.word)

    def write(self, caller: Caller) -> None:
        ((session_id, state),) = self.ledger.states.items()
        after = State("full", state.number + 1, archived=False)
        params = {"session_id": session_id, "metadata": {"number": after.number, "bulk": _BULK}}
        self.ledger.make(caller, Change("session/update", params, after))


class _Trial:
    def __init__(self, room: Room) -> None:
        self.room = room
        self.findings = Findings()
        self.words: Counter[str] = Counter()
        self.healed_in = 0.0
        self.fillers = [_Filler(room) for _ in range(_WRITERS)]

    def fill(self) -> None:
        with ThreadPoolExecutor(_WRITERS) as pool:
            for words in pool.map(lambda filler: filler.fill(self.room), self.fillers):
                self.words.update(words)
        allowed = {"storage_error", "read_only"}
        self.findings.expect(self.words.keys() <= allowed, f"refused with {dict(self.words)}")
        self.findings.expect(self.words["storage_error"] > 0, "the write that failed was no storage_error")
        self.findings.expect(self.words["read_only"] > 0, "the daemon did not turn read-only")

    def expect_read_only(self) -> None:
        answer = self.room.daemon.http("GET", "/readyz")
        self.findings.expect(answer.status == 503, f"/readyz is {answer.status}")
        reason = str(answer.json["read_only"])
        self.findings.expect("disk" in reason, f"/readyz does not say that it is the disk: {reason!r}")

    def expect_the_acknowledged(self, when: str) -> None:
        """Reads work, and show what was acknowledged and nothing else: a refused write is not done."""
        with Caller(self.room.daemon) as caller:
            stored = stored_states(caller)
            log, told = whole_log(self.room.daemon, caller, self.findings)
        expected = {key: state for filler in self.fillers for key, state in filler.ledger.states.items()}
        self.findings.expect(stored == expected, f"{when}: acknowledged was {expected}, stored is {stored}")
        self.findings.expect(told == stored, f"{when}: the events do not add up to the stored sessions")
        acknowledged = sum(filler.ledger.acknowledged for filler in self.fillers)
        self.findings.expect(len(log) == acknowledged, f"{when}: {len(log)} events for {acknowledged} writes")
        compare_cursors([filler.ledger for filler in self.fillers], log, self.findings)

    def heal(self) -> None:
        self.room.free()
        began = time.monotonic()
        wait_until(lambda: self.room.daemon.http("GET", "/readyz").status == 200, _HEAL_SECONDS)
        self.healed_in = time.monotonic() - began
        with Caller(self.room.daemon) as caller:
            for filler in self.fillers:
                filler.write(caller)


def _out_of_room(name: str, rooms: AbstractContextManager[Room]) -> Row:
    with rooms as room, room.daemon as daemon:
        trial = _Trial(room)
        trial.fill()
        trial.expect_read_only()
        trial.expect_the_acknowledged("when it is full")
        daemon.kill()
        daemon.start()
        trial.expect_the_acknowledged("after SIGKILL")
        trial.fill()  # what failed to be written has left a little room
        trial.expect_read_only()
        code = daemon.stop()
        trial.findings.expect(code == 0, f"the stop on a full disk exited {code}")
        daemon.start()
        trial.expect_the_acknowledged("after a stop")
        trial.fill()
        trial.heal()
        trial.expect_the_acknowledged("when there is room again")
        trial.findings.expect(daemon.stop() == 0, "the last stop failed")
        check_database(daemon.home / "ostler.db", trial.findings)
        return _row(name, trial)


def _row(name: str, trial: _Trial) -> Row:
    return trial.findings.row(
        name,
        f"{_WRITERS} writers, {trial.room.kind}, SIGKILL and stop while full, then freed",
        acknowledged=sum(filler.ledger.acknowledged for filler in trial.fillers),
        storage_error=trial.words["storage_error"],
        read_only=trial.words["read_only"],
        healed_s=f"{trial.healed_in:.1f}",
    )


def full_disk(folder: Path) -> Row:
    """ENOSPC, where a file system can be mounted."""
    return _out_of_room("disk full", small_disk(folder))


def failing_disk(folder: Path) -> Row:
    """EFBIG from every write past a limit, anywhere."""
    return _out_of_room("I/O error", limited_files(folder))
