"""Readers that stop reading: they cost the others nothing, and can come back without a gap."""

import socket
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import psutil

from tests.faults.caller import Caller
from tests.faults.journal import Journal
from tests.faults.replay import compare, whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, EventStream, wait_until

_BATCH: Final = 50
_WARM_BATCHES: Final = 20
_BATCHES: Final = 60
_SESSIONS: Final = 10
_DEAD: Final = 4
_MOST_GROWTH: Final = 20 * 1024 * 1024
_SILENT_SECONDS: Final = 5.0
"""How long a reader may take nothing; long enough for the load to be over before the first one goes."""
_LAG_SECONDS: Final = 5.0


class _Load:
    """One client that updates sessions in batches, and how long each batch took."""

    def __init__(self, caller: Caller, *, event_bytes: int) -> None:
        self._caller = caller
        self._filling = "x" * event_bytes
        created = self._caller.batch([("session/create", {"cwd": "/", "metadata": {"number": 0}})] * _SESSIONS)
        self._ids = [session["id"] for session in created]
        self._number = 0

    def run(self, batches: int) -> float:
        """The median of a batch in milliseconds."""
        return statistics.median(self._batch() for _ in range(batches))

    def head(self) -> int:
        return int(self._caller.call("server/stats")["cursor"])

    def grown(self, batches: int, before: int) -> int:
        """By how many bytes the daemon has grown after so many further batches."""
        self.run(batches)
        return self.rss() - before

    def rss(self) -> int:
        return int(self._caller.call("server/stats")["rss_bytes"])

    def readers(self) -> int:
        return int(self._caller.call("server/stats")["readers"])

    def _batch(self) -> float:
        calls = [("session/update", self._update()) for _ in range(_BATCH)]
        began = time.monotonic()
        self._caller.batch(calls)
        return (time.monotonic() - began) * 1000

    def _update(self) -> dict[str, object]:
        self._number += 1
        metadata = {"number": self._number, "filling": self._filling}
        return {"session_id": self._ids[self._number % _SESSIONS], "metadata": metadata}


def _stalled(daemon: Daemon) -> EventStream:
    """A stream that nobody reads from; the kernel is told not to read ahead for it."""
    stream = daemon.follow("?after=now")
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    return stream


def _connections(daemon: Daemon) -> int:
    """Connections that the daemon holds."""
    found = psutil.Process(daemon.pid).net_connections("tcp")
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in found)


def stalled_reader(folder: Path) -> Row:
    """One reader stops for thousands of events, then goes on; another one keeps up all the time."""
    findings = Findings()
    with Daemon(folder / "home", cold=True) as daemon, Caller(daemon) as caller, ThreadPoolExecutor(1) as pool:
        load = _Load(caller, event_bytes=3000)
        healthy = Journal()
        end = load.head() + (_WARM_BATCHES + _BATCHES) * _BATCH
        following = pool.submit(healthy.follow, daemon, end)
        before_ms = load.run(_WARM_BATCHES)
        slow = Journal(after=load.head(), last=load.head())
        stream = _stalled(daemon)
        during_ms = load.run(_BATCHES)
        began = time.monotonic()
        following.result(30)
        lag = time.monotonic() - began
        with stream:
            slow.read(stream, lambda: slow.last >= end)
        at_cut = len(slow.seen)
        findings.expect(slow.lagged == 1, "the slow reader was not told that it lagged")
        slow.follow(daemon, end)
        log, _ = whole_log(daemon, caller, findings)
        for journal in (healthy, slow):
            findings.expect(journal.last == end, f"a reader ended at {journal.last} and not at {end}")
            compare(journal, log, findings)
    findings.expect(healthy.lagged == 0, "the healthy reader was cut as well")
    findings.expect(lag < _LAG_SECONDS, f"the healthy reader was {lag:.1f} s late")
    slower = during_ms > 3 * before_ms + 50
    findings.expect(not slower, f"a batch took {during_ms:.0f} ms, and {before_ms:.0f} ms without the slow reader")
    return findings.row(
        "reader that stops",
        f"{_BATCHES * _BATCH} updates in batches of {_BATCH}, read on, resumed",
        batch_ms=f"{before_ms:.0f} before, {during_ms:.0f} during",
        events_before_cut=at_cut,
        after_resume=len(slow.seen) - at_cut,
        healthy_reader_late_s=f"{lag:.2f}",
    )


def dead_readers(folder: Path) -> Row:
    """Readers that never read again are dropped, and cost little until then."""
    findings = Findings()
    patience = {"OSTLER_LIMITS__BODY_SECONDS": str(_SILENT_SECONDS)}
    with Daemon(folder / "home", environment=patience, cold=True) as daemon, Caller(daemon) as caller:
        load = _Load(caller, event_bytes=12_000)  # altogether more than the daemon may grow by
        load.run(_WARM_BATCHES)
        before = load.rss()
        streams = [_stalled(daemon) for _ in range(_DEAD)]
        began = time.monotonic()
        growth = max(load.grown(_BATCHES // 10, before) for _ in range(10))
        wait_until(lambda: load.readers() == 0, 3 * _SILENT_SECONDS)
        dropped = time.monotonic() - began
        wait_until(lambda: _connections(daemon) == 1)
        for stream in streams:
            stream.close()
    findings.expect(growth < _MOST_GROWTH, f"the daemon grew by {growth / 1e6:.1f} MB")
    return findings.row(
        "dead readers",
        f"{_DEAD} that never read again, {_BATCHES * _BATCH} updates",
        grown_mb=f"{growth / 1e6:.1f}",
        dropped_after_s=f"{dropped:.0f}",
    )
