"""Stages with settings of their own."""

from collections.abc import Iterator

import pytest

from tests.daemon import Daemon
from tests.engine.driver import Stage, environment
from tests.messages_api.server import ScriptedApi


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
