"""Runs the tests in several processes, each forked once everything is imported and collected.

Workers that start from nothing import and collect all of it again, each for itself: with four of them that was a fifth
of the processor time of `make quick`. A fork has it already. What is collected is cut into pieces that whoever is free
takes from one pipe, and reports come back through another. A worker that dies fails the test that it ran, and another
one goes on with what it had taken.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, Final, cast

import pytest

_NUMBER_BYTES: Final = 4
_LARGE_PIECE: Final = 40
_SMALL_PIECE: Final = 6
_LARGE_SHARE: Final = 0.6
"""Of the tests, first, in large pieces: fixtures of a module are made once. Small ones let all end together."""


def pytest_addoption(parser: pytest.Parser) -> None:
    # The public way refuses lower-case letters; `-n` is what everybody types.
    parser.getgroup("workers")._addoption(
        "-n",
        dest="processes",
        default="0",
        metavar="N",
        help="how many processes run the tests: auto = one a core, 0 = here",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_worker: stays in one process with the others that are marked so beside it")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    wanted = str(session.config.getoption("processes"))
    count = len(os.sched_getaffinity(0)) if wanted == "auto" else int(wanted)
    options = session.config.option
    if count < 1 or len(session.items) < 2 or options.collectonly or options.usepdb or session.testsfailed:
        return None
    _Workers(session, count).run()
    return True


@dataclass
class _Worker:
    pid: int
    reports: int
    """The pipe on which it reports."""
    unread: bytearray = field(default_factory=bytearray)
    waiting: list[int] = field(default_factory=list)
    """The tests that it has taken and not begun."""
    running: int | None = None
    ended: bool = False


class _Workers:
    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._pieces = list(_cut_into_pieces(session.items))
        self._count = min(count, len(self._pieces))
        self._forked = 0
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._queue, queue_end = os.pipe()
        # As many as fit into a pipe: nobody reads before this is written.
        assert len(self._pieces) * _NUMBER_BYTES <= os.fpathconf(queue_end, "PC_PIPE_BUF") * 16
        os.write(queue_end, b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in range(len(self._pieces))))
        os.close(queue_end)

    def run(self) -> None:
        assert threading.active_count() == 1, "a fork would lose the other threads, and keep their locks"
        # Made before the forks, so that it is the same for all.
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for _ in range(self._count):
                self._fork([])
            while self._workers:
                for key, _ in self._selector.select():
                    self._receive(self._workers[key.fd])
        finally:
            for worker in self._workers.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
            self._selector.close()
            os.close(self._queue)

    def _fork(self, left: list[int]) -> None:
        reading, writing = os.pipe()
        self._forked += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _run_worker(self._session, self._forked, self._pieces, left, self._queue, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        self._workers[reading] = _Worker(pid, reading, waiting=list(left))
        self._selector.register(reading, selectors.EVENT_READ)

    def _receive(self, worker: _Worker) -> None:
        data = os.read(worker.reports, 1024 * 1024)
        if not data:
            self._end(worker)
            return
        worker.unread += data
        *lines, rest = worker.unread.split(b"\n")
        worker.unread = rest
        for line in lines:
            self._handle(worker, json.loads(line))

    def _handle(self, worker: _Worker, line: dict[str, Any]) -> None:
        match line:
            case {"took": taken}:
                worker.waiting += taken
            case {"began": index}:
                worker.running = index
                worker.waiting.remove(index)
            case {"finished": index}:
                worker.running = None
                item = self._session.items[index]
                self._session.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case {"report": data}:
                self._report(data)
            case {"ended": True}:
                worker.ended = True

    def _report(self, data: dict[str, Any]) -> None:
        config = self._session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        if isinstance(report.longrepr, list):  # of a skipped test; JSON knows no tuples
            report.longrepr = tuple(report.longrepr)
        config.hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _end(self, worker: _Worker) -> None:
        self._selector.unregister(worker.reports)
        os.close(worker.reports)
        del self._workers[worker.reports]
        _, status = os.waitpid(worker.pid, 0)
        if worker.ended:
            return
        if worker.running is not None:
            item = self._session.items[worker.running]
            why = f"the process that ran this test ended with {os.waitstatus_to_exitcode(status)}"
            failure = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
            self._session.config.hook.pytest_runtest_logreport(report=failure)
        elif not worker.waiting:
            raise self._session.Failed(f"a worker ended with {os.waitstatus_to_exitcode(status)} between two tests")
        self._fork(worker.waiting)


def _cut_into_pieces(items: list[pytest.Item]) -> Iterator[list[int]]:
    """Tests of one module each, in their order."""
    last_large = len(items) * _LARGE_SHARE
    for (together, _), numbers in groupby(range(len(items)), key=lambda index: _belongs_to(items[index])):
        tests = list(numbers)
        size = len(tests) if together else _LARGE_PIECE if tests[0] < last_large else _SMALL_PIECE
        yield from (tests[start : start + size] for start in range(0, len(tests), size))


def _belongs_to(item: pytest.Item) -> tuple[bool, str]:
    together = item.get_closest_marker("one_worker") is not None
    return together, "" if together else item.nodeid.partition("::")[0]


def _run_worker(
    session: pytest.Session, number: int, pieces: list[list[int]], left: list[int], queue: int, reports: int
) -> None:
    """In the fork: runs tests until there are none, and never returns."""
    code = 1
    try:
        config = session.config
        _become_worker(config, number)
        with os.fdopen(reports, "wb") as pipe:
            reporter = _Reporter(config, pipe)
            config.pluginmanager.register(reporter)
            _run_tests(session, pieces, left, queue, reporter)
            # What they opened is closed while somebody still listens.
            atexit._run_exitfuncs()
            reporter.send({"ended": True})
        code = 0
    finally:
        os._exit(code)


def _become_worker(config: pytest.Config, number: int) -> None:
    """Only the parent speaks to the terminal, and each worker has files of its own."""
    # Who ends the tests ends the parent, which ends its workers.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not taken away: a test that has taken too long says so through it.
    cast(Any, config.pluginmanager.getplugin("terminalreporter"))._tw._file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    capture = cast(Any, config.pluginmanager.getplugin("capturemanager"))
    capture.stop_global_capturing()
    capture.start_global_capturing()
    factory = cast(Any, config)._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir(mode=0o700)


def _run_tests(
    session: pytest.Session, pieces: list[list[int]], left: list[int], queue: int, reporter: "_Reporter"
) -> None:
    waiting = list(left)

    def take_next() -> int | None:
        if not waiting and (number := os.read(queue, _NUMBER_BYTES)):
            waiting.extend(pieces[int.from_bytes(number, "big")])
            reporter.send({"took": waiting})
        return waiting.pop(0) if waiting else None

    index = take_next()
    while index is not None:
        following = _NextTest(take_next, session.items)
        reporter.send({"began": index})
        session.config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=following)
        reporter.send({"finished": index})
        index = following.index


class _NextTest:
    """Stands for the test that comes next, which decides what the one before it tears down.

    Which one is decided only then: who took it before would keep it from the others for as long as this one runs.
    """

    def __init__(self, take_next: Callable[[], int | None], items: list[pytest.Item]) -> None:
        self._take_next = take_next
        self._items = items

    @cached_property
    def index(self) -> int | None:
        return self._take_next()

    def listchain(self) -> list[Any]:
        return [] if self.index is None else self._items[self.index].listchain()


class _Reporter:
    def __init__(self, config: pytest.Config, pipe: Any) -> None:
        self._config = config
        self._pipe = pipe

    def send(self, line: dict[str, Any]) -> None:
        self._pipe.write(json.dumps(line).encode() + b"\n")
        self._pipe.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.send({"report": data})
