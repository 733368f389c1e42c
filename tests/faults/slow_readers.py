"""Scenarios of readers that stop reading: they slow nobody, are dropped, and can resume without a gap."""

import socket
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import psutil

from tests.faults.caller import Caller
from tests.faults.event_reader import EventReader
from tests.faults.replay import compare_reader, read_whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, EventStream, wait_until

_BATCH: Final = 50
_WARM_BATCHES: Final = 20
_BATCHES: Final = 60
_SESSIONS: Final = 10
_DEAD_READERS: Final = 4
_MAX_GROWTH_BYTES: Final = 20 * 1024 * 1024
_SILENT_SECONDS: Final = 5.0
"""How long a reader may read nothing; long enough for the load to be over before the first one is dropped."""
_LAG_SECONDS: Final = 5.0


class _Load:
    """One client that updates sessions in batches, and how long each batch took."""

    def __init__(self, caller: Caller, *, event_bytes: int) -> None:
        self._caller = caller
        self._filling = "x" * event_bytes
        created = self._caller.call_batch([("session/create", {"cwd": "/", "metadata": {"number": 0}})] * _SESSIONS)
        self._ids = [session["id"] for session in created]
        self._number = 0

    def run(self, batches: int) -> float:
        """The median of a batch in milliseconds."""
        return statistics.median(self._run_batch() for _ in range(batches))

    def get_head_cursor(self) -> int:
        return int(self._caller.call("server/stats")["cursor"])

    def measure_growth(self, batches: int, before: int) -> int:
        """By how many bytes the daemon has grown after so many further batches."""
        self.run(batches)
        return self.get_rss() - before

    def get_rss(self) -> int:
        return int(self._caller.call("server/stats")["rss_bytes"])

    def count_readers(self) -> int:
        return int(self._caller.call("server/stats")["readers"])

    def _run_batch(self) -> float:
        calls = [("session/update", self._build_update()) for _ in range(_BATCH)]
        began = time.monotonic()
        self._caller.call_batch(calls)
        return (time.monotonic() - began) * 1000

    def _build_update(self) -> dict[str, object]:
        self._number += 1
        metadata = {"number": self._number, "filling": self._filling}
        return {"session_id": self._ids[self._number % _SESSIONS], "metadata": metadata}


def _open_stalled_stream(daemon: Daemon) -> EventStream:
    """A stream that nobody reads from; the kernel is told not to read ahead for it."""
    stream = daemon.follow("?after=now")
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    return stream


def _count_connections(daemon: Daemon) -> int:
    """Connections that the daemon holds."""
    connections = psutil.Process(daemon.pid).net_connections("tcp")
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in connections)


def stalled_reader(folder: Path) -> Row:
    """One reader stops for thousands of events, then goes on; another one keeps up all the time."""
    findings = Findings()
    with Daemon(folder / "home", cold=True) as daemon, Caller(daemon) as caller, ThreadPoolExecutor(1) as pool:
        load = _Load(caller, event_bytes=3000)
        healthy = EventReader()
        end = load.get_head_cursor() + (_WARM_BATCHES + _BATCHES) * _BATCH
        following = pool.submit(healthy.follow, daemon, end)
        before_ms = load.run(_WARM_BATCHES)
        slow = EventReader(after=load.get_head_cursor(), last=load.get_head_cursor())
        stream = _open_stalled_stream(daemon)
        during_ms = load.run(_BATCHES)
        began = time.monotonic()
        following.result(30)
        lag = time.monotonic() - began
        with stream:
            slow.read(stream, lambda: slow.last >= end)
        at_cut = len(slow.seen)
        findings.expect(slow.lagged == 1, "the slow reader was not told that it lagged")
        slow.follow(daemon, end)
        log, _ = read_whole_log(daemon, caller, findings)
        for reader in (healthy, slow):
            findings.expect(reader.last == end, f"a reader ended at {reader.last} and not at {end}")
            compare_reader(reader, log, findings)
    findings.expect(healthy.lagged == 0, "the healthy reader was cut as well")
    findings.expect(lag < _LAG_SECONDS, f"the healthy reader was {lag:.1f} s late")
    slower = during_ms > 3 * before_ms + 50
    findings.expect(not slower, f"a batch took {during_ms:.0f} ms, and {before_ms:.0f} ms without the slow reader")
    return findings.build_row(
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
    environment = {"OSTLER_LIMITS__BODY_SECONDS": str(_SILENT_SECONDS)}
    with Daemon(folder / "home", environment=environment, cold=True) as daemon, Caller(daemon) as caller:
        load = _Load(caller, event_bytes=12_000)  # altogether more than the daemon may grow by
        load.run(_WARM_BATCHES)
        before = load.get_rss()
        streams = [_open_stalled_stream(daemon) for _ in range(_DEAD_READERS)]
        began = time.monotonic()
        growth = max(load.measure_growth(_BATCHES // 10, before) for _ in range(10))
        wait_until(lambda: load.count_readers() == 0, 3 * _SILENT_SECONDS)
        dropped = time.monotonic() - began
        wait_until(lambda: _count_connections(daemon) == 1)
        for stream in streams:
            stream.close()
    findings.expect(growth < _MAX_GROWTH_BYTES, f"the daemon grew by {growth / 1e6:.1f} MB")
    return findings.build_row(
        "dead readers",
        f"{_DEAD_READERS} that never read again, {_BATCHES * _BATCH} updates",
        grown_mb=f"{growth / 1e6:.1f}",
        dropped_after_s=f"{dropped:.0f}",
    )
