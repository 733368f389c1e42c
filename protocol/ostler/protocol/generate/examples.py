"""An example of each method's params, from examples.json: for OpenRPC and the reference, and run by a test."""

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def load_examples() -> dict[str, dict[str, Any]]:
    """The params by method."""
    text = resources.files("ostler.protocol.generate").joinpath("examples.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found
