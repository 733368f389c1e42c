"""Daemons and commands that a nursery forks, instead of each importing for seconds what all of them import."""

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

_NURSERY: Final = Path(__file__).with_name("prefork.py")
_AT_THE_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "SSL_", "OPENSSL_")
"""Variables that the interpreter and the libraries under it read once, long before a fork."""
_REPEATED: Final = {"PYTHONPATH"}
"""Those of them that the nursery obeys after a fork."""


class ForkedProcess:
    """What `subprocess.Popen` is to its process, for one that is the nursery's child."""

    def __init__(self, pid: int, handle: int, ending: int) -> None:
        self.pid = pid
        self.stdout: BinaryIO | None = None
        self.returncode: int | None = None
        self._handle = handle
        self._ending = ending
        self._looking = threading.Lock()
        weakref.finalize(self, _close, handle, ending)

    def poll(self) -> int | None:
        # Who waits in another thread will see it.
        if self._looking.acquire(blocking=False):
            try:
                self._look(0)
            finally:
                self._looking.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._looking:
            self._look(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def _look(self, seconds: float | None) -> None:
        if self.returncode is not None:
            return
        told = select.poll()
        told.register(self._ending, select.POLLIN)
        if told.poll(None if seconds is None else seconds * 1000):
            self.returncode = int(os.read(self._ending, 16))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _Nursery:
    def __init__(self, kind: str) -> None:
        self._asking = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {key: value for key, value in os.environ.items() if key not in _REPEATED}
        with theirs:
            # It ends when our side of the socket does, however we end.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_NURSERY), kind, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, order: bytes, descriptors: list[int]) -> tuple[int, int]:
        """The pid, and a handle of the process."""
        with self._asking:
            try:
                socket.send_fds(self._control, [order], descriptors)
                pid, handles, _, _ = socket.recv_fds(self._control, 16, 1)
                for handle in handles:  # by the flag of the call it would stay as it came: Python 3.11 drops it
                    os.set_inheritable(handle, False)
                return int(pid), handles[0]
            except (OSError, ValueError) as gone:
                # What it could not import stands above, in its own words.
                raise AssertionError(f"the nursery has ended, with {self._process.wait(10)}") from gone


_starting = threading.Lock()


def _nursery(kind: str) -> _Nursery:
    # Two of a kind would be one too many: when it is forgotten, its daemons end.
    with _starting:
        return _started(kind)


@cache
def _started(kind: str) -> _Nursery:
    return _Nursery(kind)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a process with these variables beside ours is the same when it is forked."""
    return not any(name.startswith(_AT_THE_START) and name not in _REPEATED for name in environment)


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
        pool.submit(_type, keys, typed)
        printed, complained = pool.submit(out.read), pool.submit(err.read)
        try:
            code = forked.wait(timeout)
        except subprocess.TimeoutExpired:
            forked.kill()
            raise
        return subprocess.CompletedProcess(arguments, code, printed.result(timeout), complained.result(timeout))


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


def _type(stdin: TextIO, text: str) -> None:
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
    order = {
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder or Path.cwd()),
        "umask": _umask(),
        "terminal": terminal,
    }
    ending, their_ending = os.pipe()
    try:
        pid, handle = _nursery(kind).fork(json.dumps(order).encode(), [*streams, their_ending])
    finally:
        os.close(their_ending)
    return ForkedProcess(pid, handle, ending)


def _umask() -> int:
    """Ours: asking the system by setting it would change it for all threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
