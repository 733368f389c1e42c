"""A real store in a file of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.storage import Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()
