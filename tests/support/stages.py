"""Stages as fixtures: daemons that tests share, and daemons of their own. A conftest imports them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.driver import Stage, environment
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi


@pytest.fixture(scope="session")
def shared_api() -> Iterator[ScriptedApi]:
    """A model for many tests, each with scripts of its own."""
    with ScriptedApi() as server:
        yield server


@contextmanager
def _stage(api: ScriptedApi, folder: Path, **settings: str) -> Iterator[Stage]:
    with Daemon(folder / "home", environment=environment(api, folder / "plug_in", **settings)) as daemon:
        stage = Stage(daemon, api, folder)
        # The first request waits until the model's client is loaded, which is more than some time limits here.
        stage.talk(otherwise=message(says("Ready."))).turn()
        stage.leave()
        yield stage


@contextmanager
def _performance(stage: Stage) -> Iterator[Stage]:
    """One test on a stage: no request of it is one that the real API would refuse, or that breaks its cache."""
    api = stage.api
    api.violations.clear()
    api.prefix_changes.clear()
    api.may_refuse = api.may_rewrite = False
    yield stage
    stage.leave()
    assert api.may_refuse or not api.violations, api.violations
    assert api.may_rewrite or not api.prefix_changes, api.prefix_changes


@pytest.fixture(scope="session")
def shared_stage(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with _stage(shared_api, tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="session")
def shared_impatient_stage(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = {
        "OSTLER_MODEL__SILENCE_SECONDS": "1",
        "OSTLER_MODEL__MESSAGE_SECONDS": "1.5",
        "OSTLER_MODEL__MAX_RETRIES": "1",
        "OSTLER_MODEL__FALLBACK": "claude-haiku-4-5",
        "OSTLER_ASKS__EXPIRE_SECONDS": "0.5",
        "OSTLER_MAX_TOOL_CONCURRENCY": "2",
    }
    with _stage(shared_api, tmp_path_factory.mktemp("impatient"), **settings) as stage:
        yield stage


@pytest.fixture
def stage(shared_stage: Stage) -> Iterator[Stage]:
    """A daemon that tests share; each has sessions of its own."""
    with _performance(shared_stage) as performance:
        yield performance


@pytest.fixture
def impatient_stage(shared_impatient_stage: Stage) -> Iterator[Stage]:
    """A daemon that waits for nobody, has another model to fall back to, and runs two calls at once."""
    with _performance(shared_impatient_stage) as performance:
        yield performance


@pytest.fixture
def own_stage(api: ScriptedApi, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """A daemon of its own, for a test that kills it or has settings of its own."""
    stages: list[Stage] = []

    def make(**settings: str) -> Stage:
        daemon = Daemon(tmp_path / "home", environment=environment(api, tmp_path / "plug_in", **settings))
        stages.append(Stage(daemon, api, tmp_path))
        daemon.start()
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture(scope="session")
def shared_bypassing(shared_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("bypass")
    settings = environment(shared_api, folder / "plug_in", OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    with Daemon(folder / "home", environment=settings) as daemon:
        yield Stage(daemon, shared_api, folder)


@pytest.fixture
def bypassing(shared_bypassing: Stage) -> Iterator[Stage]:
    """A daemon whose person lets sessions bypass permissions."""
    api = shared_bypassing.api
    api.violations.clear()
    yield shared_bypassing
    shared_bypassing.leave()
    assert not api.violations, api.violations
