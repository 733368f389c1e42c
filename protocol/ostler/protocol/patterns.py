"""Regular expressions that are compiled when they are first used.

A module's patterns are compiled while it is imported, which takes 0.1 ms each, and some 2 ms. The first request imports
two hundred of them and uses a few.
"""

import re
from typing import Any, AnyStr, cast


def compile_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, but a mistake in the pattern shows when it is first used."""
    return cast("re.Pattern[AnyStr]", _Pattern(pattern, flags))


class _Pattern:
    """Stands for the compiled pattern, whose methods it takes over as they are first asked for."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value
