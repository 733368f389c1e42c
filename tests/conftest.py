"""Fixtures for all tests."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.daemon import Daemon

# A shell without job control starts what it puts in the background with Ctrl-C ignored, nohup does that with SIGHUP,
# and children inherit it. The tests press Ctrl-C, and close terminals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How fast examples are made says something about the machine's neighbours, and nothing about the code.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a daemon, so that `make quick` can leave it out."""
    for item in items:
        if isinstance(item, pytest.Function) and _starts_daemon(item):
            item.add_marker(pytest.mark.daemon)


def _starts_daemon(test: pytest.Function) -> bool:
    if test.nodeid.startswith("tests/faults/"):
        return True
    return not _DAEMON_FIXTURES.isdisjoint(test.fixturenames) or not _DAEMON_CLASSES.isdisjoint(vars(test.module))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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
