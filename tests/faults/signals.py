"""Scenarios of signals and shutdown: a stop is quick and clean, and no acknowledged write is lost."""

import contextlib
import json
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller
from tests.faults.database import check_database
from tests.faults.ledger import list_stored_states
from tests.faults.rows import Findings, Row
from tests.faults.writers import Writer
from tests.support.daemon import Daemon, EventStream, wait_until

_READERS: Final = 20
_STALLED: Final = 3
_WRITERS: Final = 4
_STOP_SECONDS: Final = 5.0
_ROUNDS: Final = 3


def terminated_with_readers(folder: Path) -> Row:
    """SIGTERM while readers are attached."""
    return _stop_with_readers(folder, "SIGTERM with readers", lambda daemon: daemon.signal(signal.SIGTERM))


def shut_down_with_readers(folder: Path) -> Row:
    """`server/shutdown` while readers are attached."""

    def shut_down(daemon: Daemon) -> None:
        assert daemon.call("server/shutdown")["stopping"]

    return _stop_with_readers(folder, "shutdown with readers", shut_down)


def _stop_with_readers(folder: Path, name: str, stop: Callable[[Daemon], None]) -> Row:
    """A few of the readers have stopped reading, and must not delay the stop either."""
    findings = Findings()
    with Daemon(folder / "home") as daemon:
        streams = [daemon.follow() for _ in range(_STALLED)]
        _fill_buffers(daemon)
        streams += [daemon.follow() for _ in range(_READERS - _STALLED)]
        daemon.call("session/create", cwd="/")
        for stream in streams[_STALLED:]:
            stream.take(1)
        seconds, code = _time_stop(daemon, stop)
        ended = sum(_read_to_end(stream) for stream in streams)
        left = [one for one in ("daemon.json", "ostler.db-wal", "ostler.sock") if (daemon.home / one).exists()]
    findings.expect(code == 0, f"exit {code}")
    findings.expect(seconds < _STOP_SECONDS, f"it took {seconds:.1f} s")
    findings.expect(ended == _READERS, f"only {ended} streams of {_READERS} ended as they should")
    findings.expect(not left, f"{left} were left behind")
    return findings.build_row(
        name, f"{_READERS} readers attached, {_STALLED} of them stalled", seconds=f"{seconds:.2f}", exit=code
    )


def _fill_buffers(daemon: Daemon) -> None:
    """Make more events than the buffers between the daemon and a reader hold."""
    with Caller(daemon) as caller:
        session_id = caller.call("session/create", cwd="/")["id"]
        for first in range(0, 250, 50):
            metadata = [{"number": first + step, "filling": "x" * 40_000} for step in range(50)]
            caller.call_batch([("session/update", {"session_id": session_id, "metadata": one}) for one in metadata])


def _time_stop(daemon: Daemon, stop: Callable[[Daemon], None]) -> tuple[float, int]:
    began = time.monotonic()
    stop(daemon)
    code = daemon.wait()
    return time.monotonic() - began, code


def _read_to_end(stream: EventStream) -> bool:
    """Read a stream to its end; false if it is silent, but not over."""
    try:
        list(stream.read_frames())
    except TimeoutError:
        return False
    finally:
        stream.close()
    return True


def second_signal(folder: Path) -> Row:
    """A stop that hangs, because somebody holds the database, is forced by a second SIGTERM."""
    findings = Findings()
    with Daemon(folder / "home") as daemon, _hold_write_lock(daemon.home / "ostler.db"), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(daemon.send_http, "POST", "/rpc", _CREATE, {"Content-Type": "application/json"})
        wait_until(lambda: daemon.call("server/stats")["writes_pending"] > 0)
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in daemon.stderr)
        hangs = daemon.process is not None and daemon.process.poll() is None
        seconds, code = _time_stop(daemon, lambda daemon: daemon.signal(signal.SIGTERM))
        done = writing.exception(30) is None and "result" in writing.result().json
    findings.expect(hangs, "the stop did not hang")
    findings.expect(code == 1, f"exit {code}")
    findings.expect(seconds < 1, f"it took {seconds:.1f} s")
    findings.expect(not done, "the write that was never done was acknowledged")
    with daemon:
        found = daemon.call("session/list")["sessions"]
        findings.expect(found == [], f"{len(found)} sessions are there that were never acknowledged")
    return findings.build_row("second SIGTERM", "while a stop hangs", seconds=f"{seconds:.2f}", exit=code)


_CREATE: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/create", "params": {"cwd": "/"}}).encode()


@contextlib.contextmanager
def _hold_write_lock(path: Path) -> Iterator[None]:
    """Hold the write lock of the database, as no other program should."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


def terminated_under_load(folder: Path) -> Row:
    """SIGTERM in the middle of writes, a few times over."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    writers = [Writer(f"w{number}", folder, seed=number) for number in range(_WRITERS)]
    took: list[float] = []
    for round_number in range(1, _ROUNDS + 1):
        with daemon, ThreadPoolExecutor(_WRITERS) as pool:
            _expect_acknowledged(daemon, writers, findings)
            running = [pool.submit(writer.run, daemon) for writer in writers]
            enough = sum(writer.ledger.acknowledged for writer in writers) + 30 * round_number
            wait_until(lambda: sum(writer.ledger.acknowledged for writer in writers) >= enough)  # noqa: B023
            seconds, code = _time_stop(daemon, lambda daemon: daemon.signal(signal.SIGTERM))
            for one in running:
                one.result(30)
        took.append(seconds)
        findings.expect(code == 0, f"exit {code}")
        findings.expect(not (daemon.home / "ostler.db-wal").exists(), "the WAL was not folded in")
        check_database(daemon.home / "ostler.db", findings)
    in_flight = sum(writer.ledger.pending is not None for writer in writers)
    with daemon:
        _expect_acknowledged(daemon, writers, findings)
    findings.expect(max(took) < _STOP_SECONDS, f"a stop took {max(took):.1f} s")
    return findings.build_row(
        "SIGTERM under load",
        f"{_WRITERS} writers, {_ROUNDS} times",
        acknowledged=sum(writer.ledger.acknowledged for writer in writers),
        in_flight=in_flight,
        slowest_s=f"{max(took):.2f}",
    )


def _expect_acknowledged(daemon: Daemon, writers: list[Writer], findings: Findings) -> None:
    with Caller(daemon) as caller:
        for writer in writers:
            writer.ledger.settle_pending(caller)
        stored = list_stored_states(caller)
    for problem in (problem for writer in writers for problem in writer.ledger.problems):
        findings.expect(False, problem)
    expected = {key: state for writer in writers for key, state in writer.ledger.states.items()}
    findings.expect(stored == expected, f"acknowledged was {expected}, stored is {stored}")
