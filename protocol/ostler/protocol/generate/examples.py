"""An example of each method's params and of its result: for OpenRPC and the reference.

Those of params are in examples.json, and a test runs them; the results in example_results.json are what a daemon
answered to them, with long lists and texts cut.
"""

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def load_examples() -> dict[str, dict[str, Any]]:
    """The params by method."""
    return _load("examples.json")


@cache
def load_example_results() -> dict[str, dict[str, Any]]:
    """The results by method."""
    return _load("example_results.json")


def _load(name: str) -> dict[str, dict[str, Any]]:
    text = resources.files("ostler.protocol.generate").joinpath(name).read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found
