"""What looks like a secret, by a table of patterns: it has no place in notes that others will read."""

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Final

_TABLE: Final = "secrets.toml"


def find_secret(text: str) -> str | None:
    """What a text holds, as `an AWS access key`; None where nothing looks like a secret."""
    return next((name for name, pattern in _load_patterns() if pattern.search(text)), None)


@cache
def _load_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    table = tomllib.loads(resources.files("ostler.tools.permissions").joinpath(_TABLE).read_text("utf-8"))
    return tuple((row["name"], re.compile(row["pattern"])) for row in table["secrets"])
