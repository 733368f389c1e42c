"""Test harnesses as fixtures: daemons that tests share, and daemons of their own. A conftest imports them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.driver import Harness, build_environment
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi


@pytest.fixture(scope="session")
def shared_api() -> Iterator[ScriptedApi]:
    """A model for many tests, each with scripts of its own."""
    with ScriptedApi() as server:
        yield server


@contextmanager
def _open_harness(api: ScriptedApi, folder: Path, **settings: str) -> Iterator[Harness]:
    with Daemon(folder / "home", environment=build_environment(api, folder / "plug_in", **settings)) as daemon:
        harness = Harness(daemon, api, folder)
        # The first request waits until the model's client is loaded, which is more than some time limits here.
        harness.open_session(otherwise=message(says("Ready."))).run_turn()
        harness.end_sessions()
        yield harness


@contextmanager
def _check_requests(harness: Harness) -> Iterator[Harness]:
    """One test on a harness: no request of it is one that the real API would refuse, or that breaks its cache."""
    api = harness.api
    api.violations.clear()
    api.prefix_changes.clear()
    api.may_refuse = api.may_rewrite = False
    yield harness
    harness.end_sessions()
    assert api.may_refuse or not api.violations, api.violations
    assert api.may_rewrite or not api.prefix_changes, api.prefix_changes


@pytest.fixture(scope="session")
def shared_harness(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with _open_harness(shared_api, tmp_path_factory.mktemp("harness")) as harness:
        yield harness


@pytest.fixture(scope="session")
def shared_impatient_harness(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    settings = {
        "OSTLER_MODEL__SILENCE_SECONDS": "1",
        "OSTLER_MODEL__MESSAGE_SECONDS": "1.5",
        "OSTLER_MODEL__MAX_RETRIES": "1",
        "OSTLER_MODEL__FALLBACK": "claude-haiku-4-5",
        "OSTLER_ASKS__EXPIRE_SECONDS": "0.5",
        "OSTLER_MAX_TOOL_CONCURRENCY": "2",
    }
    with _open_harness(shared_api, tmp_path_factory.mktemp("impatient"), **settings) as harness:
        yield harness


@pytest.fixture
def harness(shared_harness: Harness) -> Iterator[Harness]:
    """A daemon that tests share; each has sessions of its own."""
    with _check_requests(shared_harness) as checked:
        yield checked


@pytest.fixture
def impatient_harness(shared_impatient_harness: Harness) -> Iterator[Harness]:
    """A daemon that waits for nobody, has another model to fall back to, and runs two calls at once."""
    with _check_requests(shared_impatient_harness) as checked:
        yield checked


@pytest.fixture
def own_harness(api: ScriptedApi, tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """A daemon of its own, for a test that kills it or has settings of its own."""
    harnesses: list[Harness] = []

    def make(**settings: str) -> Harness:
        daemon = Daemon(tmp_path / "home", environment=build_environment(api, tmp_path / "plug_in", **settings))
        harnesses.append(Harness(daemon, api, tmp_path))
        daemon.start()
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()


@pytest.fixture(scope="session")
def shared_bypassing_harness(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("bypass")
    settings = build_environment(shared_api, folder / "plug_in", OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    with Daemon(folder / "home", environment=settings) as daemon:
        yield Harness(daemon, shared_api, folder)


@pytest.fixture
def bypassing_harness(shared_bypassing_harness: Harness) -> Iterator[Harness]:
    """A daemon whose person lets sessions bypass permissions."""
    api = shared_bypassing_harness.api
    api.violations.clear()
    yield shared_bypassing_harness
    shared_bypassing_harness.end_sessions()
    assert not api.violations, api.violations
