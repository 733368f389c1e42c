"""A web site on loopback, and a session that may fetch from there."""

from collections.abc import AsyncIterator

import pytest

from ostler.protocol.config import Web
from tests.support.tool_calls import Session
from tests.tools.web.site import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


@pytest.fixture
def reader(session: Session) -> Session:
    """A session that may read from this machine, under every name."""
    return session.change_config(web=Web(allow_private=["127.0.0.0/8", "::1"]))
