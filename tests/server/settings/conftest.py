"""A machine of one's own for each test."""

from pathlib import Path

import pytest

from tests.server.settings.machine import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
