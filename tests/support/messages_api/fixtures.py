"""The scripted server as a fixture. A conftest imports it."""

from collections.abc import Iterator

import pytest

from tests.support.messages_api.server import ScriptedApi


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    """A scripted Messages API. A request that the real one would refuse, or that breaks its cache, fails the test."""
    with ScriptedApi() as server:
        yield server
    assert server.may_refuse or not server.violations, server.violations
    assert server.may_rewrite or not server.prefix_changes, server.prefix_changes
