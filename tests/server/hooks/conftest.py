"""A project with hooks."""

from pathlib import Path

import pytest

from tests.server.hooks.hooking import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder.resolve())
