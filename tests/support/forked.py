"""Daemons and commands forked by a prefork server, so that not each of them imports the same modules for seconds."""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final, TextIO

_PREFORK_SCRIPT: Final = Path(__file__).with_name("prefork.py")
_STARTUP_PREFIXES: Final = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "SSL_", "OPENSSL_")
"""Variables that the interpreter and the libraries under it read once, long before a fork."""
_APPLIED_AFTER_FORK: Final = {"PYTHONPATH"}
"""Those of them that the prefork server applies after a fork."""


class ForkedProcess:
    """What `subprocess.Popen` is to its process, for a child of the prefork server."""

    def __init__(self, pid: int, pidfd: int, exit_pipe: int) -> None:
        self.pid = pid
        self.stdout: BinaryIO | None = None
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._exit_pipe = exit_pipe
        self._poll_lock = threading.Lock()
        weakref.finalize(self, _close, pidfd, exit_pipe)

    def poll(self) -> int | None:
        # A thread that holds the lock waits for the end, and will set the code.
        if self._poll_lock.acquire(blocking=False):
            try:
                self._poll_exit(0)
            finally:
                self._poll_lock.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._poll_lock:
            self._poll_exit(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def _poll_exit(self, seconds: float | None) -> None:
        if self.returncode is not None:
            return
        poller = select.poll()
        poller.register(self._exit_pipe, select.POLLIN)
        if poller.poll(None if seconds is None else seconds * 1000):
            self.returncode = int(os.read(self._exit_pipe, 16))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _PreforkClient:
    """A prefork server in its own process, and the socket on which it is asked for children."""

    def __init__(self, kind: str) -> None:
        self._request_lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {key: value for key, value in os.environ.items() if key not in _APPLIED_AFTER_FORK}
        with theirs:
            # It ends when our side of the socket does, however we end.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PREFORK_SCRIPT), kind, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
                pass_fds=[theirs.fileno()],
            )
        # The server and its socket live as long as the tests: nobody but their end closes them.
        atexit.register(self._end)

    def _end(self) -> None:
        self._control.close()
        self._process.terminate()
        self._process.wait()

    def fork(self, request: bytes, descriptors: list[int]) -> tuple[int, int]:
        """The pid and the pidfd of the new process."""
        with self._request_lock:
            try:
                socket.send_fds(self._control, [request], descriptors)
                pid, pidfds, _, _ = socket.recv_fds(self._control, 16, 1)
                for pidfd in pidfds:  # by the flag of the call it would stay as it came: Python 3.11 drops it
                    os.set_inheritable(pidfd, False)
                return int(pid), pidfds[0]
            except (OSError, ValueError) as gone:
                # What it could not import stands above, in its own words.
                raise AssertionError(f"the prefork server has ended, with {self._process.wait(10)}") from gone


_start_lock = threading.Lock()


def _get_client(kind: str) -> _PreforkClient:
    # One server of each kind: a second one would be dropped by the cache, and its daemons would end with it.
    with _start_lock:
        return _start_client(kind)


@cache
def _start_client(kind: str) -> _PreforkClient:
    return _PreforkClient(kind)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a fork with these additional variables behaves as a new process would."""
    return not any(name.startswith(_STARTUP_PREFIXES) and name not in _APPLIED_AFTER_FORK for name in environment)


def fork_daemon(arguments: list[str], environment: Mapping[str, str], errors: int) -> ForkedProcess:
    """`python -P -m ostler.server` as `subprocess.Popen` would start it, with a pipe for its stdout."""
    out, their_out = os.pipe()
    with open(os.devnull, "rb") as nothing:
        try:
            forked = _fork("daemon", arguments, environment, [nothing.fileno(), their_out, errors])
        finally:
            os.close(their_out)
    forked.stdout = open(out, "rb")  # noqa: SIM115 - as with Popen, the owner closes it
    return forked


def run_command(
    arguments: list[str], environment: Mapping[str, str], typed: str, folder: Path | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """`ostler` as `subprocess.run` would run it."""
    (stdin, typing), (printing, stdout), (complaining, stderr) = os.pipe(), os.pipe(), os.pipe()
    with open(typing, "w") as keys, open(printing) as out, open(complaining) as err, ThreadPoolExecutor(3) as pool:
        forked = fork_command(arguments, environment, (stdin, stdout, stderr), folder)
        pool.submit(_write_input, keys, typed)
        printed, complained = pool.submit(out.read), pool.submit(err.read)
        try:
            code = forked.wait(timeout)
        except subprocess.TimeoutExpired:
            forked.kill()
            raise
        return subprocess.CompletedProcess(arguments, code, printed.result(timeout), complained.result(timeout))


def run_script(code: str, arguments: list[str], folder: Path, timeout: float = 60) -> None:
    """`python -c` as `subprocess.run` would run it in a folder that it can import from; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with open(os.devnull, "rb") as nothing:
        forked = _fork("script", [code, *arguments], environment, [nothing.fileno(), 1, 2], folder)
    try:
        assert forked.wait(timeout) == 0, "what went wrong was printed"
    finally:
        forked.kill()


def fork_command(
    arguments: list[str],
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    folder: Path | None = None,
    *,
    terminal: bool = False,
) -> ForkedProcess:
    """`ostler` with these streams, which are its own from here on; stdin may be its terminal."""
    try:
        return _fork("command", arguments, environment, list(streams), folder, terminal=terminal)
    finally:
        _close(*set(streams))


def _write_input(stdin: TextIO, text: str) -> None:
    # It may end before it has read what was typed.
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(text)


def _fork(
    kind: str,
    arguments: list[str],
    environment: Mapping[str, str],
    streams: list[int],
    folder: Path | None = None,
    *,
    terminal: bool = False,
) -> ForkedProcess:
    request = {
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder or Path.cwd()),
        "umask": _read_umask(),
        "terminal": terminal,
    }
    exit_pipe, their_exit_pipe = os.pipe()
    try:
        pid, pidfd = _get_client(kind).fork(json.dumps(request).encode(), [*streams, their_exit_pipe])
    finally:
        os.close(their_exit_pipe)
    return ForkedProcess(pid, pidfd, exit_pipe)


def _read_umask() -> int:
    """Ours: asking the system by setting it would change it for all threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
