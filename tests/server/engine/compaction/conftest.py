"""A daemon whose models have a small window, and a scripted API that counts what it is sent."""

from collections.abc import Iterator

import pytest

from tests.server.engine.compaction.conversations import SMALL_WINDOW
from tests.support.daemon import Daemon
from tests.support.driver import Harness, build_environment
from tests.support.messages_api.server import ScriptedApi
from tests.support.messages_api.token_meter import TokenMeter

SETTINGS = {"OSTLER_CONTEXT__WINDOW": str(SMALL_WINDOW), "OSTLER_MODEL__MAX_OUTPUT_TOKENS": "4000"}


@pytest.fixture(scope="module")
def shared_window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("window")
    with (
        ScriptedApi() as api,
        Daemon(folder / "home", environment=build_environment(api, folder / "plug_in", **SETTINGS)) as daemon,
    ):
        yield Harness(daemon, api, folder)


@pytest.fixture
def window(shared_window: Harness) -> Iterator[Harness]:
    """A daemon whose models have a window of 40,000 tokens; the API counts, and refuses what does not fit."""
    api = shared_window.api
    api.violations.clear()
    api.meter = TokenMeter(SMALL_WINDOW)
    yield shared_window
    shared_window.end_sessions()
    assert not api.violations, api.violations
