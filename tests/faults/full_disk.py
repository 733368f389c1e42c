"""Scenarios of a full disk: failed writes are refused, reads work as before, and the daemon recovers by itself."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller, CallRefused
from tests.faults.database import check_database
from tests.faults.ledger import Change, Ledger, State, list_stored_states
from tests.faults.limited_disk import LimitedDisk, limit_file_size, mount_small_disk
from tests.faults.replay import compare_cursors, read_whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import wait_until

_WRITERS: Final = 3
_FILLING: Final = "x" * 20_000
_RECOVERY_SECONDS: Final = 15.0


class _Filler:
    """A writer of one session that goes on until it is refused."""

    def __init__(self, disk: LimitedDisk) -> None:
        self.ledger = Ledger()
        params = {"cwd": "/", "title": "full", "metadata": {"number": 0}, "idempotency_key": f"{id(self)}"}
        with Caller(disk.daemon) as caller:
            self.ledger.make_change(caller, Change("session/create", params, State("full", 0, archived=False)))

    def fill(self, disk: LimitedDisk) -> list[str]:
        """The error codes of the first write that failed, and of the next."""
        return [self._write_until_refused(disk), self._write_until_refused(disk)]

    def _write_until_refused(self, disk: LimitedDisk) -> str:
        with Caller(disk.daemon) as caller:
            try:
                while True:
                    self.write(caller)
            except CallRefused as refused:
                return str(refused.code)

    def write(self, caller: Caller) -> None:
        ((session_id, state),) = self.ledger.states.items()
        after = State("full", state.number + 1, archived=False)
        params = {"session_id": session_id, "metadata": {"number": after.number, "bulk": _FILLING}}
        self.ledger.make_change(caller, Change("session/update", params, after))


class _Trial:
    def __init__(self, disk: LimitedDisk) -> None:
        self.disk = disk
        self.findings = Findings()
        self.refusals: Counter[str] = Counter()
        self.recovery_seconds = 0.0
        self.fillers = [_Filler(disk) for _ in range(_WRITERS)]

    def fill(self) -> None:
        with ThreadPoolExecutor(_WRITERS) as pool:
            for codes in pool.map(lambda filler: filler.fill(self.disk), self.fillers):
                self.refusals.update(codes)
        allowed = {"storage_error", "read_only"}
        self.findings.expect(self.refusals.keys() <= allowed, f"refused with {dict(self.refusals)}")
        self.findings.expect(self.refusals["storage_error"] > 0, "the write that failed was no storage_error")
        self.findings.expect(self.refusals["read_only"] > 0, "the daemon did not turn read-only")

    def expect_read_only(self) -> None:
        answer = self.disk.daemon.send_http("GET", "/readyz")
        self.findings.expect(answer.status == 503, f"/readyz is {answer.status}")
        reason = str(answer.json["read_only"])
        self.findings.expect("disk" in reason, f"/readyz does not say that it is the disk: {reason!r}")

    def expect_acknowledged(self, when: str) -> None:
        """Reads work, and show what was acknowledged and nothing else: a refused write is not done."""
        with Caller(self.disk.daemon) as caller:
            stored = list_stored_states(caller)
            log, told = read_whole_log(self.disk.daemon, caller, self.findings)
        expected = {key: state for filler in self.fillers for key, state in filler.ledger.states.items()}
        self.findings.expect(stored == expected, f"{when}: acknowledged was {expected}, stored is {stored}")
        self.findings.expect(told == stored, f"{when}: the events do not add up to the stored sessions")
        acknowledged = sum(filler.ledger.acknowledged for filler in self.fillers)
        self.findings.expect(len(log) == acknowledged, f"{when}: {len(log)} events for {acknowledged} writes")
        compare_cursors([filler.ledger for filler in self.fillers], log, self.findings)

    def recover(self) -> None:
        self.disk.free()
        began = time.monotonic()
        wait_until(lambda: self.disk.daemon.send_http("GET", "/readyz").status == 200, _RECOVERY_SECONDS)
        self.recovery_seconds = time.monotonic() - began
        with Caller(self.disk.daemon) as caller:
            for filler in self.fillers:
                filler.write(caller)


def _run_trial(name: str, limited_disk: AbstractContextManager[LimitedDisk]) -> Row:
    with limited_disk as disk, disk.daemon as daemon:
        trial = _Trial(disk)
        trial.fill()
        trial.expect_read_only()
        trial.expect_acknowledged("when it is full")
        daemon.kill()
        daemon.start()
        trial.expect_acknowledged("after SIGKILL")
        trial.fill()  # what failed to be written has left a little room
        trial.expect_read_only()
        code = daemon.stop()
        trial.findings.expect(code == 0, f"the stop on a full disk exited {code}")
        daemon.start()
        trial.expect_acknowledged("after a stop")
        trial.fill()
        trial.recover()
        trial.expect_acknowledged("when there is room again")
        trial.findings.expect(daemon.stop() == 0, "the last stop failed")
        check_database(daemon.home / "ostler.db", trial.findings)
        return _build_row(name, trial)


def _build_row(name: str, trial: _Trial) -> Row:
    return trial.findings.build_row(
        name,
        f"{_WRITERS} writers, {trial.disk.kind}, SIGKILL and stop while full, then freed",
        acknowledged=sum(filler.ledger.acknowledged for filler in trial.fillers),
        storage_error=trial.refusals["storage_error"],
        read_only=trial.refusals["read_only"],
        healed_s=f"{trial.recovery_seconds:.1f}",
    )


def full_disk(folder: Path) -> Row:
    """ENOSPC, where a file system can be mounted."""
    return _run_trial("disk full", mount_small_disk(folder))


def failing_disk(folder: Path) -> Row:
    """EFBIG from every write past a limit, anywhere."""
    return _run_trial("I/O error", limit_file_size(folder))
