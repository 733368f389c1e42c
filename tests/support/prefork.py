"""`python -P tests/support/prefork.py daemon FD`: imports what a daemon imports, and forks daemons on request.

The same with `command`, for `ostler`, and with `script`, for a program that uses tools. It runs as a file and not as a
module, so that its children can import what a daemon can import, and no more.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

gc.disable()

DESCRIPTOR_COUNT: Final = 4
"""What comes with a request: the three streams of the process, and a pipe for its exit code."""
MAX_REQUEST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessKind:
    """What can be forked: the packages of ours that it uses, and what these import only where they use it."""

    packages: tuple[str, ...]
    lazy: tuple[str, ...]


KINDS: Final = {
    "daemon": ProcessKind(
        ("ostler.protocol", "ostler.storage", "ostler.tools", "ostler.server"),
        (
            "anyio._backends._asyncio",
            "argparse",
            "difflib",
            "encodings.idna",
            "httpcore2",
            "httpx2",
            "importlib.readers",
            "jsonschema_rs",
            "platformdirs",
            "prometheus_client.core",
            "prometheus_client.process_collector",
            "psutil",
            "pydantic.v1",
            "rapidfuzz.fuzz",
            "rapidfuzz.process",
            "rapidfuzz.utils",
            "tomlkit",
            "tree_sitter",
            "tree_sitter_bash",
            "truststore",
            "uvicorn.lifespan.off",
            "uvicorn.lifespan.on",
            "uvicorn.loops.asyncio",
            "uvicorn.protocols.http.httptools_impl",
        ),
    ),
    "script": ProcessKind(
        ("ostler.protocol", "ostler.tools"),
        ("anyio._backends._asyncio", "anyio.to_thread", "ctypes", "psutil", "tree_sitter", "tree_sitter_bash"),
    ),
    "command": ProcessKind(
        ("ostler.protocol", "ostler.clients"),
        ("anyio._backends._asyncio", "encodings.idna", "httpcore2", "httpx2", "importlib.metadata", "platformdirs"),
    ),
}


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A process to fork: how it is to be started, and the descriptors that it gets."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    umask: int
    terminal: bool
    """Whether its stdin is to be the terminal of a session of its own."""
    descriptors: list[int]


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    exit_code_fd: int
    """Where its exit code is written."""


def load(kind: ProcessKind) -> None:
    """Import everything, and be sure that what was imported can be forked."""
    for name in kind.packages:
        _import_modules(importlib.import_module(name))
    for name in kind.lazy:
        importlib.import_module(name)
    # A fork takes along one thread, and every lock that another one holds.
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) == 1
    gc.freeze()


def _import_modules(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # A `__main__` and the sandbox's forwarder are programs of their own, not modules of the daemon.
        if module.name.rpartition(".")[2] not in {"__main__", "forwarder"}:
            importlib.import_module(module.name)


class PreforkServer:
    """Forks a child for each request of the tests, and reports the exit code of each."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        # Not epoll: that is a descriptor, which a child would close a second time when its number is long another's.
        self._selector = selectors.PollSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> ForkRequest | None:
        """Returns in each child with its request, and in the server with None when the tests have ended."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._report_exit(key.fd, key.data)
                    continue
                request = self._receive_request()
                if request is None:
                    self._kill_children()
                    return None
                if not self._fork(request):
                    self._control.detach()
                    return request

    def _receive_request(self) -> ForkRequest | None:
        text, descriptors, _, _ = socket.recv_fds(self._control, MAX_REQUEST_BYTES, DESCRIPTOR_COUNT)
        return ForkRequest(**json.loads(text), descriptors=descriptors) if text else None

    def _fork(self, request: ForkRequest) -> int:
        pid = os.fork()
        if pid == 0:
            return 0
        *streams, exit_code_fd = request.descriptors
        for descriptor in streams:
            os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        self._selector.register(pidfd, selectors.EVENT_READ, Child(pid, exit_code_fd))
        socket.send_fds(self._control, [str(pid).encode()], [pidfd])
        return pid

    def _report_exit(self, pidfd: int, child: Child) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        # The test may have ended without waiting for it.
        with contextlib.suppress(BrokenPipeError):
            os.write(child.exit_code_fd, str(code).encode())
        os.close(child.exit_code_fd)

    def _kill_children(self) -> None:
        """Kill all children: the tests that started them have ended."""
        for key in self._selector.get_map().values():
            if key.data is not None:
                signal.pidfd_send_signal(key.fd, signal.SIGKILL)


def set_up_child(request: ForkRequest) -> None:
    """Give this child the state of a process that was just started: streams, folder, variables, signals."""
    for number, descriptor in enumerate(request.descriptors[:3]):
        os.dup2(descriptor, number)
    if request.terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request.folder)
    os.umask(request.umask)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[:0] = [entry for entry in request.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    importlib.invalidate_caches()
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(kind: str, arguments: list[str]) -> None:
    """What `python -P -m ostler.server`, the script `ostler` and `python -c` do."""
    if kind == "daemon":
        sys.argv = ["ostler.server", *arguments]
        runpy.run_module("ostler.server", run_name="__main__", alter_sys=True)
    elif kind == "script":
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<script>", "exec"), {"__name__": "__main__"})  # noqa: S102 - of a test
    else:
        sys.argv = [str(Path(sys.executable).with_name("ostler")), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")


def main(kind: str, control: int) -> None:
    # Ctrl-C is for the tests; when they end, the control socket closes, and this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(KINDS[kind])
    request = PreforkServer(socket.socket(fileno=control)).serve()
    if request is not None:
        set_up_child(request)
        run(kind, request.arguments)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
