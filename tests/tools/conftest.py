"""A session in a folder of its own."""

from pathlib import Path

import pytest

from tests.support.tool_calls import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    folder = tmp_path / "project"
    folder.mkdir()
    return Session(folder.resolve(), tmp_path / "outputs")
