"""Each promise of the page about security names the tests that try to break it, and they are there."""

import re
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROMISES: dict[str, dict[str, list[str]]] = tomllib.loads((TESTS / "security" / "promises.toml").read_text())


def list_test_names() -> set[str]:
    pattern = re.compile(r"^(?:async )?def test_(\w+)", re.MULTILINE)
    return {name for path in TESTS.rglob("test_*.py") for name in pattern.findall(path.read_text())}


@pytest.mark.parametrize("chapter", PROMISES)
def test_every_promise_has_tests_that_exist(chapter: str) -> None:
    there = list_test_names()
    missing = {
        promise: [name for name in names if name not in there]
        for promise, names in PROMISES[chapter].items()
        if not names or any(name not in there for name in names)
    }
    assert not missing
