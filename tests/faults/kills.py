"""SIGKILL at random points of a mixed load: no acknowledged write is lost, no event is delivered twice."""

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
from tests.faults.clients import FOLLOWERS, REPLAYS, WATCHERS, WRITERS, Clients
from tests.faults.database import check_copy, check_database
from tests.faults.event_reader import EventReader
from tests.faults.ledger import list_stored_states
from tests.faults.replay import SeenCursors, compare_cursors, compare_reader, read_whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon

_JOIN_SECONDS: Final = 60.0
_COPY_EVERY: Final = 10
_EXPECTED_FILES: Final = {
    *("daemon.json", "daemon.lock", "daemon.pid", "daemon.port", "logs", "ostler.sock", "stderr", "tasks", "token"),
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
        self.clients = Clients.create(folder, seed)
        self._copy = folder / "copy"
        self._seen_cursors = SeenCursors(self.findings)
        self._random = random.Random(seed)

    def begin(self) -> None:
        with self.daemon:
            self.clients.write_history(self.daemon)

    def run_cycle(self) -> None:
        """One kill, and what has to hold after the one before."""
        if self._random.random() < 0.2:
            self._kill_while_starting()
        else:
            self._start()
            self._check()
            # Soon after the start most readers are still replaying; later the writers are busy.
            self._kill_under_load(self._random.choice((0.15, 0.6, 1.5)))
        self.counts.kills += 1
        if self.counts.kills % _COPY_EVERY == 0:
            check_copy(self.daemon.home, self._copy, self.findings)

    def finish(self) -> None:
        self._start()
        self._check()
        ends = self.clients.mark_ends(self.daemon)
        with ThreadPoolExecutor(len(ends)) as pool:
            running = [pool.submit(reader.follow, self.daemon, end) for reader, end in ends]
            for one in running:
                one.result(_JOIN_SECONDS)
        self._compare()
        code = self.daemon.stop()
        self.findings.expect(code == 0, f"the last stop exited {code}")
        check_database(self.daemon.home / "ostler.db", self.findings)
        strange = {file.name for file in self.daemon.home.iterdir()} - _EXPECTED_FILES
        self.findings.expect(not strange, f"files were left behind: {sorted(strange)}")

    def _start(self) -> None:
        began = time.monotonic()
        self.daemon.start()
        self.counts.ready_ms.append((time.monotonic() - began) * 1000)

    def _check(self) -> None:
        """Every acknowledged write is there, and nothing else but the one that was pending."""
        self._check_takeover()
        last_known = max(self.clients.last_acknowledged, self._seen_cursors.last)
        with Caller(self.daemon) as caller:
            head = int(caller.call("server/stats")["cursor"])
            for ledger in self.clients.ledgers:
                ledger.settle_pending(caller)
            stored = list_stored_states(caller)
        self.findings.expect(head >= last_known, f"the log ends at {head}, but {last_known} was given before the kill")
        expected = self.clients.states
        for key in expected.keys() | stored.keys():
            was, now = expected.get(key), stored.get(key)
            self.findings.expect(was == now, f"{key}: acknowledged was {was}, stored is {now}")

    def _check_takeover(self) -> None:
        """The new daemon took over what the killed one left: the lock, daemon.json and the socket."""
        daemon_file = json.loads((self.daemon.home / "daemon.json").read_text())
        self.findings.expect(daemon_file["pid"] == self.daemon.pid, f"daemon.json names pid {daemon_file['pid']}")
        answer = self.daemon.send_http("GET", "/healthz", unix=True)
        self.findings.expect(answer.status == 200, f"the socket answered {answer.status}")

    def _kill_while_starting(self) -> None:
        self.daemon.spawn()
        self._wait(0.6)
        self.counts.starting += not _is_ready(self.daemon)
        self.daemon.kill()

    def _kill_under_load(self, max_seconds: float) -> None:
        replays = [EventReader() for _ in range(REPLAYS)]
        resuming = [*self.clients.followers, *self.clients.refresh_watchers(self.daemon)]
        with ThreadPoolExecutor(WRITERS + len(replays) + len(resuming)) as pool:
            running = [pool.submit(reader.follow, self.daemon) for reader in (*replays, *resuming)]
            running += [pool.submit(writer.run, self.daemon) for writer in self.clients.writers]
            self._wait(max_seconds)
            self.daemon.kill()
            for one in running:
                one.result(_JOIN_SECONDS)
        self.counts.in_flight += sum(ledger.pending is not None for ledger in self.clients.ledgers)
        self._record_readers(replays, resuming)

    def _record_readers(self, replays: list[EventReader], resuming: list[EventReader]) -> None:
        last_known = self._seen_cursors.last
        for reader in resuming:
            self._seen_cursors.add(reader, last_known)
        for reader in replays:
            self._seen_cursors.add(reader)
            self.counts.replaying += 0 < reader.last < last_known
            for problem in reader.problems:
                self.findings.expect(False, f"reader from the start: {problem}")

    def _wait(self, max_seconds: float) -> None:
        """Wait for a random time before the kill, at most so many seconds."""
        threading.Event().wait(self._random.uniform(0, max_seconds))

    def _compare(self) -> None:
        with Caller(self.daemon) as caller:
            log, states = read_whole_log(self.daemon, caller, self.findings)
            self.findings.expect(
                states == list_stored_states(caller), "the events do not add up to the stored sessions"
            )
        for reader in (*self.clients.followers, *self.clients.watchers):
            compare_reader(reader, log, self.findings)
        compare_cursors(self.clients.ledgers, log, self.findings)
        for problem in (problem for ledger in self.clients.ledgers for problem in ledger.problems):
            self.findings.expect(False, problem)


def _is_ready(daemon: Daemon) -> bool:
    try:
        daemon.wait_ready(0)
    except AssertionError:
        return False
    return True


def kill_under_load(
    folder: Path, *, count: int, seed: int, report: Callable[[str], None], seconds: float = 1500
) -> Row:
    """Kill the daemon `count` times under load."""
    trial = _Trial(folder, seed)
    deadline = time.monotonic() + seconds
    try:
        trial.begin()
        while trial.counts.kills < count and time.monotonic() < deadline:
            trial.run_cycle()
            report(f"{trial.counts.kills} of {count} kills")
        trial.finish()
    finally:
        trial.daemon.kill()
    trial.findings.expect(trial.counts.kills == count, f"only {trial.counts.kills} kills within {seconds:.0f} s")
    return _build_row(trial, seed)


def _build_row(trial: _Trial, seed: int) -> Row:
    counts, clients = trial.counts, trial.clients
    return trial.findings.build_row(
        "SIGKILL under load",
        f"{WRITERS} writers, {FOLLOWERS + WATCHERS + REPLAYS} readers, seed {seed}",
        kills=counts.kills,
        before_ready=counts.starting,
        in_replay=counts.replaying,
        acknowledged=sum(ledger.acknowledged for ledger in clients.ledgers),
        in_flight=counts.in_flight,
        events_seen=sum(len(reader.seen) for reader in (*clients.followers, *clients.watchers)),
        restarts=len(counts.ready_ms),
        ready_ms=f"{statistics.median(counts.ready_ms):.0f} (max {max(counts.ready_ms):.0f})",
    )
