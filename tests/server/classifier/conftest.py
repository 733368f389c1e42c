"""A project folder for the questions to the classifier."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = (tmp_path / "project").resolve()
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_text("print(1)\n")
    return project
