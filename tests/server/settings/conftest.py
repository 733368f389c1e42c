"""A machine for each test, in its temporary folder."""

from pathlib import Path

import pytest

from tests.server.settings.machine import PersonMachine


@pytest.fixture
def machine(tmp_path: Path) -> PersonMachine:
    return PersonMachine(tmp_path)
