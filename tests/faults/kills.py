"""SIGKILL at random points of a mixed load: nothing that was acknowledged is lost, nothing is told twice."""

import json
import random
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller
from tests.faults.crowd import FOLLOWERS, REPLAYS, WATCHERS, WRITERS, Crowd
from tests.faults.database import check_copy, check_database
from tests.faults.journal import Journal
from tests.faults.ledger import stored_states
from tests.faults.replay import Canon, compare, compare_cursors, whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon

_JOIN_SECONDS: Final = 60.0
_COPY_EVERY: Final = 10
_FILES: Final = {
    *("daemon.json", "daemon.lock", "daemon.pid", "logs", "ostler.sock", "stderr", "tasks", "token"),
    *("ostler.db", "ostler.db-wal", "ostler.db-shm"),
}


@dataclass(slots=True)
class _Counts:
    kills: int = 0
    starting: int = 0
    """Daemons killed before they were ready."""
    in_flight: int = 0
    replaying: int = 0
    """Readers that were still replaying from the start when the daemon was killed."""
    ready_ms: list[float] = field(default_factory=list)
    """From starting the daemon again to its being ready."""


class _Trial:
    def __init__(self, folder: Path, seed: int) -> None:
        self.daemon = Daemon(folder / "home")
        self.findings = Findings()
        self.counts = _Counts()
        self.crowd = Crowd.gather(folder, seed)
        self._copy = folder / "copy"
        self._canon = Canon(self.findings)
        self._random = random.Random(seed)

    def begin(self) -> None:
        with self.daemon:
            self.crowd.write_history(self.daemon)

    def cycle(self) -> None:
        """One kill, and what has to hold after the one before."""
        if self._random.random() < 0.2:
            self._kill_while_starting()
        else:
            self._start()
            self._check()
            # Soon after the start most readers are still replaying; later the writers are in full swing.
            self._kill_under_load(self._random.choice((0.15, 0.6, 1.5)))
        self.counts.kills += 1
        if self.counts.kills % _COPY_EVERY == 0:
            check_copy(self.daemon.home, self._copy, self.findings)

    def finish(self) -> None:
        self._start()
        self._check()
        ends = self.crowd.ends(self.daemon)
        with ThreadPoolExecutor(len(ends)) as pool:
            running = [pool.submit(journal.follow, self.daemon, end) for journal, end in ends]
            for one in running:
                one.result(_JOIN_SECONDS)
        self._compare()
        code = self.daemon.stop()
        self.findings.expect(code == 0, f"the last stop exited {code}")
        check_database(self.daemon.home / "ostler.db", self.findings)
        strange = {file.name for file in self.daemon.home.iterdir()} - _FILES
        self.findings.expect(not strange, f"files were left behind: {sorted(strange)}")

    def _start(self) -> None:
        began = time.monotonic()
        self.daemon.start()
        self.counts.ready_ms.append((time.monotonic() - began) * 1000)

    def _check(self) -> None:
        """Every acknowledged write is there, and nothing else but the one that was pending."""
        self._check_place()
        told = max(self.crowd.last_acknowledged, self._canon.last)
        with Caller(self.daemon) as caller:
            head = int(caller.call("server/stats")["cursor"])
            for ledger in self.crowd.ledgers:
                ledger.settle(caller)
            found = stored_states(caller)
        self.findings.expect(head >= told, f"the log ends at {head}, but {told} was given before the kill")
        expected = self.crowd.states
        for key in expected.keys() | found.keys():
            was, now = expected.get(key), found.get(key)
            self.findings.expect(was == now, f"{key}: acknowledged was {was}, stored is {now}")

    def _check_place(self) -> None:
        """What the dead daemon left behind was taken over: the lock, daemon.json and the socket."""
        said = json.loads((self.daemon.home / "daemon.json").read_text())
        self.findings.expect(said["pid"] == self.daemon.pid, f"daemon.json names pid {said['pid']}")
        answer = self.daemon.http("GET", "/healthz", unix=True)
        self.findings.expect(answer.status == 200, f"the socket answered {answer.status}")

    def _kill_while_starting(self) -> None:
        self.daemon.spawn()
        self._wait(0.6)
        self.counts.starting += not _is_ready(self.daemon)
        self.daemon.kill()

    def _kill_under_load(self, most: float) -> None:
        again = [Journal() for _ in range(REPLAYS)]
        others = [*self.crowd.followers, *self.crowd.current_watchers(self.daemon)]
        with ThreadPoolExecutor(WRITERS + len(again) + len(others)) as pool:
            running = [pool.submit(journal.follow, self.daemon) for journal in (*again, *others)]
            running += [pool.submit(writer.run, self.daemon) for writer in self.crowd.writers]
            self._wait(most)
            self.daemon.kill()
            for one in running:
                one.result(_JOIN_SECONDS)
        self.counts.in_flight += sum(ledger.pending is not None for ledger in self.crowd.ledgers)
        self._note(again, others)

    def _note(self, again: list[Journal], others: list[Journal]) -> None:
        told = self._canon.last
        for journal in others:
            self._canon.add(journal, told)
        for journal in again:
            self._canon.add(journal)
            self.counts.replaying += 0 < journal.last < told
            for problem in journal.problems:
                self.findings.expect(False, f"reader from the start: {problem}")

    def _wait(self, most: float) -> None:
        """Until the moment of the kill: anywhere between at once and a little later."""
        threading.Event().wait(self._random.uniform(0, most))

    def _compare(self) -> None:
        with Caller(self.daemon) as caller:
            log, states = whole_log(self.daemon, caller, self.findings)
            self.findings.expect(states == stored_states(caller), "the events do not add up to the stored sessions")
        for journal in (*self.crowd.followers, *self.crowd.watchers):
            compare(journal, log, self.findings)
        compare_cursors(self.crowd.ledgers, log, self.findings)
        for problem in (problem for ledger in self.crowd.ledgers for problem in ledger.problems):
            self.findings.expect(False, problem)


def _is_ready(daemon: Daemon) -> bool:
    try:
        daemon.wait_ready(0)
    except AssertionError:
        return False
    return True


def kills(folder: Path, *, count: int, seed: int, say: Callable[[str], None], seconds: float = 1500) -> Row:
    """Kill the daemon `count` times under load."""
    trial = _Trial(folder, seed)
    deadline = time.monotonic() + seconds
    try:
        trial.begin()
        while trial.counts.kills < count and time.monotonic() < deadline:
            trial.cycle()
            say(f"{trial.counts.kills} of {count} kills")
        trial.finish()
    finally:
        trial.daemon.kill()
    trial.findings.expect(trial.counts.kills == count, f"only {trial.counts.kills} kills within {seconds:.0f} s")
    return _row(trial, seed)


def _row(trial: _Trial, seed: int) -> Row:
    counts, crowd = trial.counts, trial.crowd
    return trial.findings.row(
        "SIGKILL under load",
        f"{WRITERS} writers, {FOLLOWERS + WATCHERS + REPLAYS} readers, seed {seed}",
        kills=counts.kills,
        before_ready=counts.starting,
        in_replay=counts.replaying,
        acknowledged=sum(ledger.acknowledged for ledger in crowd.ledgers),
        in_flight=counts.in_flight,
        events_seen=sum(len(journal.seen) for journal in (*crowd.followers, *crowd.watchers)),
        restarts=len(counts.ready_ms),
        ready_ms=f"{statistics.median(counts.ready_ms):.0f} (max {max(counts.ready_ms):.0f})",
    )
