"""Starting the daemon in the background, and stopping it. Standard library only, as `probe` is."""

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ostler.clients.sdk import DAEMON_COMMAND
from ostler.clients.sdk.address import DaemonFile, build_address
from ostler.clients.sdk.errors import ClientError, DaemonUnreachable, StartFailed
from ostler.clients.sdk.probe import DaemonState, exchange, is_daemon, probe
from ostler.clients.sdk.tail import read_last_lines
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


def build_daemon_command(options: DaemonOptions, home: str | None, log_file: str | None = None) -> list[str]:
    """The command that is the daemon."""
    command = [*DAEMON_COMMAND, *options.to_arguments()]
    if home:
        command += ["--home", home]
    if log_file:
        command += ["--log-file", log_file]
    return command


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
        with _hold_start_lock(places, tick):
            state = probe(places)
            if state.running:
                meanwhile()
                return StartResult(state, fresh=False)
            return StartResult(_spawn_and_wait(places, options or DaemonOptions(), tick, meanwhile), fresh=True)
    except OSError as error:
        raise StartFailed(f"The daemon cannot be started: {error}. See `ostler doctor`.", []) from error


def _spawn_and_wait(places: Places, options: DaemonOptions, tick: Tick, meanwhile: Callable[[], None]) -> DaemonState:
    log_start = _get_file_size(places.log_file)
    announced = _get_signature(places.daemon_file)
    process = _spawn(places, options)
    try:
        meanwhile()
        return _wait_until_ready(places, process, log_start, announced, tick)
    finally:
        # The daemon goes on by itself; without this, Popen would warn that the process still runs.
        process.returncode = process.poll() or 0


@contextmanager
def _hold_start_lock(places: Places, tick: Tick) -> Iterator[None]:
    """Hold the start lock: two commands that find no daemon at the same moment start only one."""
    for folder in (places.data, places.state, places.logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(places.data / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _try_lock(lock) and time.monotonic() < deadline:
            _pause(tick)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spawn(places: Places, options: DaemonOptions) -> subprocess.Popen[bytes]:
    one_folder = len({places.config, places.data, places.state, places.runtime}) == 1
    command = build_daemon_command(options, str(places.data) if one_folder else None, str(places.log_file))
    # What is said before the log is open, or by a crash, must land somewhere too.
    errors = os.open(places.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter, and a list of words
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",  # a daemon must not keep the folder busy that it was started in
            start_new_session=True,
        )
    finally:
        os.close(errors)


def _wait_until_ready(
    places: Places, process: subprocess.Popen[bytes], log_start: int, announced: tuple[int, int] | None, tick: Tick
) -> DaemonState:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll()
        state = probe(places)
        if state.running and (state.ready or state.read_only):
            return state
        if ended is not None:
            raise _build_start_error(f"The daemon ended with exit code {ended} before it was ready.", places, log_start)
        tick()
        _wait_for_news(places, process, announced)
    raise _build_start_error(
        f"The daemon (pid {process.pid}) is not ready after {START_SECONDS:.0f} s; it goes on trying.",
        places,
        log_start,
    )


def _wait_for_news(places: Places, process: subprocess.Popen[bytes], announced: tuple[int, int] | None) -> None:
    """Until the daemon has written where it is, or has ended; and not for long: a full disk may keep it from that."""
    until = time.monotonic() + _PROBE_EVERY_SECONDS
    while time.monotonic() < until:
        time.sleep(_FILE_POLL_SECONDS)
        if process.poll() is not None or _get_signature(places.daemon_file) != announced:
            return


def _get_signature(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


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


def _get_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _pause(tick: Tick) -> None:
    tick()
    time.sleep(_POLL_SECONDS)
