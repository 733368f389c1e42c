"""The tables of the classifier: TOML files beside its modules."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def load_table(name: str) -> dict[str, Any]:
    """One of the TOML files beside this module."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))
