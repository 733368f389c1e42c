"""`python -P tests/support/prefork.py daemon FD`: imports what a daemon imports, and forks daemons on request.

The same with `command`, for `ostler`. It runs as a file and not as a module, so that its children can import what a
daemon can import, and no more.
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

DESCRIPTORS: Final = 4
"""What comes with an order: the three streams of the process, and where its end is told."""
ORDER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be forked: the packages of ours that it uses, and what these import only where they use it."""

    packages: tuple[str, ...]
    lazy: tuple[str, ...]


KINDS: Final = {
    "daemon": Kind(
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
    "command": Kind(
        ("ostler.protocol", "ostler.clients"),
        ("anyio._backends._asyncio", "encodings.idna", "httpcore2", "httpx2", "importlib.metadata", "platformdirs"),
    ),
}


@dataclass(frozen=True, slots=True)
class Order:
    """A process that is to be, and the descriptors that it gets."""

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
    told: int
    """Where its exit code is written."""


def load(kind: Kind) -> None:
    """Import everything, and be sure that what was imported can be forked."""
    for name in kind.packages:
        _load_all(importlib.import_module(name))
    for name in kind.lazy:
        importlib.import_module(name)
    # A fork takes along one thread, and every lock that another one holds.
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) == 1
    gc.freeze()


def _load_all(package: ModuleType) -> None:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # A `__main__` and the sandbox's forwarder are programs of their own, not modules of the daemon.
        if found.name.rpartition(".")[2] not in {"__main__", "forwarder"}:
            importlib.import_module(found.name)


class Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        # Not epoll: that is a descriptor, which a child would close a second time when its number is long another's.
        self._watched = selectors.PollSelector()
        self._watched.register(control, selectors.EVENT_READ)

    def serve(self) -> Order | None:
        """Returns in each child, with what it is to become, and when nobody can ask any more, with nothing."""
        while True:
            for key, _ in self._watched.select():
                if key.data is not None:
                    self._tell_end(key.fd, key.data)
                    continue
                order = self._order()
                if order is None:
                    self._end_all()
                    return None
                if not self._fork(order):
                    self._control.detach()
                    return order

    def _order(self) -> Order | None:
        text, descriptors, _, _ = socket.recv_fds(self._control, ORDER_BYTES, DESCRIPTORS)
        return Order(**json.loads(text), descriptors=descriptors) if text else None

    def _fork(self, order: Order) -> int:
        pid = os.fork()
        if pid == 0:
            return 0
        *streams, told = order.descriptors
        for descriptor in streams:
            os.close(descriptor)
        watched = os.pidfd_open(pid)
        self._watched.register(watched, selectors.EVENT_READ, Child(pid, told))
        socket.send_fds(self._control, [str(pid).encode()], [watched])
        return pid

    def _tell_end(self, watched: int, child: Child) -> None:
        self._watched.unregister(watched)
        os.close(watched)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        # Perhaps nobody wants to know any more.
        with contextlib.suppress(BrokenPipeError):
            os.write(child.told, str(code).encode())
        os.close(child.told)

    def _end_all(self) -> None:
        """Who started them is gone."""
        for key in self._watched.get_map().values():
            if key.data is not None:
                signal.pidfd_send_signal(key.fd, signal.SIGKILL)


def become(order: Order) -> None:
    """Be as a process that was just started: streams, folder, variables, signals."""
    for number, descriptor in enumerate(order.descriptors[:3]):
        os.dup2(descriptor, number)
    if order.terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order.folder)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.path[:0] = [entry for entry in order.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    importlib.invalidate_caches()
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(kind: str, arguments: list[str]) -> None:
    """What `python -P -m ostler.server` and the script `ostler` do."""
    if kind == "daemon":
        sys.argv = ["ostler.server", *arguments]
        runpy.run_module("ostler.server", run_name="__main__", alter_sys=True)
    else:
        sys.argv = [str(Path(sys.executable).with_name("ostler")), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")


def main(kind: str, control: int) -> None:
    # Ctrl-C is for the tests, and their end is ours.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(KINDS[kind])
    order = Nursery(socket.socket(fileno=control)).serve()
    if order is not None:
        become(order)
        run(kind, order.arguments)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
