"""Starting the daemon in the background, and stopping it. Standard library only, as `probe` is."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ostler.clients.sdk.address import DaemonFile, build_address
from ostler.clients.sdk.errors import ClientError, DaemonUnreachable, StartFailed
from ostler.clients.sdk.probe import DaemonState, exchange, is_daemon, probe
from ostler.clients.sdk.process.spawn import Spawned, open_start_lock, spawn, take_ahead, try_lock
from ostler.clients.sdk.process.tail import read_last_lines
from ostler.protocol.places import Places

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_FILE_POLL_SECONDS: Final = 0.003
"""Between two looks at the file that a daemon writes when it is ready, which cost next to nothing."""
_PROBE_EVERY_SECONDS: Final = 0.1
_LOG_LINES: Final = 20
_REASON_PREFIX: Final = "ostler: "
"""Begins the line with which a daemon says why it does not start."""

Tick = Callable[[], None]
"""Called again and again while waiting: whoever shows progress does it there."""


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """How a daemon is to run; what is not given is up to its configuration."""

    host: str | None = None
    port: int | None = None
    socket: str | None = None
    model: str | None = None
    allow_hosts: tuple[str, ...] = ()

    def to_arguments(self) -> list[str]:
        given = {"--host": self.host, "--port": self.port, "--socket": self.socket, "--model": self.model}
        pairs = [(name, str(value)) for name, value in given.items() if value is not None]
        pairs += [("--allow-host", name) for name in self.allow_hosts]
        return [word for pair in pairs for word in pair]


@dataclass(frozen=True, slots=True)
class StartResult:
    """The daemon that runs now."""

    state: DaemonState
    fresh: bool
    """False: it ran already."""


def start(
    places: Places,
    options: DaemonOptions | None = None,
    tick: Tick = lambda: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> StartResult:
    """Start the daemon of these places unless it runs, and wait until it answers.

    `meanwhile` is done while it starts, on the processor that it leaves free.
    """
    try:
        if options is None and (ahead := take_ahead(places)) is not None:
            spawned, lock = ahead
            try:
                return _wait_for(spawned, tick, meanwhile)
            finally:
                os.close(lock)
        with _hold_start_lock(places, tick):
            state = probe(places)
            if state.running:
                meanwhile()
                return StartResult(state, fresh=False)
            return _wait_for(spawn(places, (options or DaemonOptions()).to_arguments()), tick, meanwhile)
    except OSError as error:
        raise StartFailed(f"The daemon cannot be started: {error}. See `ostler doctor`.", []) from error


def _wait_for(spawned: Spawned, tick: Tick, meanwhile: Callable[[], None]) -> StartResult:
    try:
        meanwhile()
        return StartResult(_wait_until_ready(spawned, tick), fresh=True)
    finally:
        spawned.let_go()


@contextmanager
def _hold_start_lock(places: Places, tick: Tick) -> Iterator[None]:
    """Hold the start lock: two commands that find no daemon at the same moment start only one."""
    lock = open_start_lock(places)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not try_lock(lock) and time.monotonic() < deadline:
            _pause(tick)
        yield
    finally:
        os.close(lock)


def _wait_until_ready(spawned: Spawned, tick: Tick) -> DaemonState:
    places, process, log_start = spawned.places, spawned.process, spawned.log_start
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll()
        state = probe(places)
        if state.running and (state.ready or state.read_only):
            return state
        if ended is not None:
            raise _build_start_error(f"The daemon ended with exit code {ended} before it was ready.", places, log_start)
        tick()
        _wait_for_news(spawned)
    raise _build_start_error(
        f"The daemon (pid {process.pid}) is not ready after {START_SECONDS:.0f} s; it goes on trying.",
        places,
        log_start,
    )


def _wait_for_news(spawned: Spawned) -> None:
    """Until the daemon has written where it is, or has ended; and not for long: a full disk may keep it from that."""
    until = time.monotonic() + _PROBE_EVERY_SECONDS
    while time.monotonic() < until:
        time.sleep(_FILE_POLL_SECONDS)
        if spawned.process.poll() is not None or spawned.is_announced():
            return


def _build_start_error(what: str, places: Places, log_start: int) -> StartFailed:
    log = read_last_lines(places.log_file, _LOG_LINES, since=log_start)
    told = [line.removeprefix(_REASON_PREFIX) for line in log if line.startswith(_REASON_PREFIX)]
    where = f"Its log is {places.log_file}; `ostler doctor` checks what it needs."
    if told:  # in its own words, which say all that the log does
        reason = told[-1] if told[-1].endswith((".", "?", "!")) else f"{told[-1]}."
        return StartFailed(f"The daemon did not start: {reason} {what} {where}", [])
    return StartFailed(f"{what} {where}", log)


def stop(places: Places, tick: Tick = lambda: None) -> DaemonFile | None:
    """Stop the daemon of these places and wait until it is gone; None when there was none."""
    state = probe(places)
    if state.file is None or state.condition == "stale":
        return None
    if not (state.running and _request_shutdown(state.file, places)):
        _send_sigterm(state.file)
    deadline = time.monotonic() + STOP_SECONDS
    while is_daemon(state.file) or probe(places).running:
        if time.monotonic() > deadline:
            raise ClientError(
                f"The daemon (pid {state.file.pid}) still runs after {STOP_SECONDS:.0f} s. "
                f"`kill -9 {state.file.pid}` ends it; nothing that was acknowledged is lost."
            )
        _pause(tick)
    return state.file


def _send_sigterm(file: DaemonFile) -> None:
    try:
        os.kill(file.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it was faster
    except PermissionError as denied:
        raise ClientError(f"The daemon (pid {file.pid}) is another user's; only they can stop it.") from denied


def _request_shutdown(file: DaemonFile, places: Places) -> bool:
    call = {"jsonrpc": "2.0", "id": 1, "method": "server/shutdown", "params": {}}
    try:
        _, body = exchange(build_address(file, places), "POST", "/rpc", json.dumps(call).encode())
        return "result" in json.loads(body)
    except (DaemonUnreachable, ValueError):
        return False


def _pause(tick: Tick) -> None:
    tick()
    time.sleep(_POLL_SECONDS)
