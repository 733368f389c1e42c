"""Fixtures for all tests."""

import contextlib
import gc
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import settings

import tests.support.examples  # noqa: F401 - registers the profiles
from ostler.tools.process import tree
from tests.support.daemon import Daemon
from tests.support.disks import spread_folders
from tests.support.driver import Harness
from tests.support.inprocess import InProcessDaemon

# A shell without job control starts what it puts in the background with Ctrl-C ignored, nohup does that with SIGHUP,
# and children inherit it. The tests press Ctrl-C, and close terminals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Nor do children get what somebody had open who started the tests.
for name in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):  # the one that lists them is closed by now
        if int(name) > 2:
            os.set_inheritable(int(name), False)

settings.load_profile("shared-machine")

pytest_plugins = ["tests.support.workers"]

# What is collected stays until the end: to look through it for garbage again and again finds none.
gc.disable()


_DAEMON_FIXTURES: Final = frozenset(
    {
        "bypassing_harness",
        "cli",
        "daemon",
        "daemon_cli",
        "harness",
        "impatient_harness",
        "own_harness",
        "probed",
        "rehearsal_cli",
        "rehearsal_daemon",
        "scene",
        "shared_daemon",
    }
)
_DAEMON_CLASSES: Final = frozenset({"Cli", "Daemon", "InProcessDaemon"})
"""A test module that has one of these starts daemons itself."""
_LONG_IMPORT: Final = ("tests/server/classifier/", "tests/server/models/anthropic/")
"""Where the provider's library is used, which takes a second to import."""
_MARK_OF_ALL: Final = re.compile(r"^pytestmark = pytest\.mark\.(\w+)$", re.MULTILINE)
_IMPORTED: Final = re.compile(r"^from tests\S* import ((?:\([^)]*\))|.*)", re.MULTILINE)
_PARAMETERS: Final = re.compile(r"^(?:async )?def test_\w+\(([^)]*)\)", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a module of which no test would be run: that is half of what collecting costs."""
    left_out = re.findall(r"\bnot (\w+)", config.option.markexpr)
    if not left_out or not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    source = collection_path.read_text("utf-8")
    marks = _MARK_OF_ALL.findall(source) + ["daemon"] * _all_start_daemons(source)
    return True if set(marks) & set(left_out) else None


def _all_start_daemons(source: str) -> bool:
    """Whether the text alone says that every test starts a daemon. Of others that is known once they are imported."""
    if "pytest.mark.without_daemon" in source:
        return False
    if any(not _DAEMON_CLASSES.isdisjoint(_NAME.findall(names)) for names in _IMPORTED.findall(source)):
        return True
    tests = _PARAMETERS.findall(source)
    return bool(tests) and all(not _DAEMON_FIXTURES.isdisjoint(_NAME.findall(each)) for each in tests)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what starts a daemon, so that `make quick` can leave it out; and keep together what shares a long import."""
    for item in items:
        if isinstance(item, pytest.Function) and _starts_daemon(item):
            item.add_marker(pytest.mark.daemon)
        if item.nodeid.startswith(_LONG_IMPORT):
            item.add_marker(pytest.mark.one_worker)
    yield
    # In random order, but one after the other, and first: nobody waits for their worker at the end.
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG_IMPORT))


def pytest_collection_finish() -> None:
    gc.freeze()
    # Seldom: a test makes little garbage, and to look for it among syntax trees takes longer than to make these.
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def _starts_daemon(test: pytest.Function) -> bool:
    if test.nodeid.startswith("tests/faults/"):
        return True
    if test.get_closest_marker("without_daemon"):
        return False
    if not _DAEMON_FIXTURES.isdisjoint(test.fixturenames) or not _DAEMON_CLASSES.isdisjoint(vars(test.module)):
        return True
    fixtures = (found for many in test._fixtureinfo.name2fixturedefs.values() for found in many)
    return any(_gives_daemon(each.func.__annotations__.get("return")) for each in fixtures)


def _gives_daemon(annotation: Any) -> bool:
    """Whether a fixture says that it returns one that runs."""
    kinds = get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, Daemon | InProcessDaemon | Harness) for kind in kinds)


@pytest.fixture(scope="session", autouse=True)
def spread_temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Thousands of files are made and removed: less processor time where the folders of the tests lie apart."""
    spread_folders(tmp_path_factory.getbasetemp())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that ignore the wish to end are killed sooner. All are looked for meanwhile, again and again."""
    monkeypatch.setattr(tree, "GRACE_SECONDS", 0.3)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for a daemon that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """A daemon of its own."""
    with Daemon(home) as running:
        yield running


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon for tests that leave no trace in it. It does not make them wait for their wrong tokens."""
    environment = {"OSTLER_LIMITS__WRONG_TOKENS_PER_MINUTE": "10000"}
    with Daemon(tmp_path_factory.mktemp("shared") / "home", environment=environment) as running:
        yield running
