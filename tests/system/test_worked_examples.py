"""The pages on adding a method and an event, followed to the letter."""

from pathlib import Path

import pytest

from tests.support.repository import DOCS
from tests.support.worked_examples import follow

pytestmark = pytest.mark.daemon  # what the pages say to run starts one


@pytest.mark.parametrize("page", ["adding-a-method.md", "adding-an-event.md"])
def test_who_does_what_the_page_says_has_it_at_the_end(tmp_path: Path, page: str) -> None:
    commands = follow(DOCS / page, tmp_path)
    assert sum("pytest" in command for command in commands) == 1
    assert commands[-1].endswith("scripts.generate --check")
