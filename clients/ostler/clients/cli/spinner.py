"""A spinner while something is waited for; on a terminal only."""

import sys
import time
from types import TracebackType
from typing import Final

_SIGNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FIRST_SECONDS: Final = 0.3  # what is done sooner needs no line


class Spinner:
    """Call it again and again while waiting; leaving it wipes the line."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._start = time.monotonic()
        self._shown = False

    def __enter__(self) -> "Spinner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self) -> None:
        passed = time.monotonic() - self._start
        if passed < _FIRST_SECONDS or not sys.stderr.isatty():
            return
        sign = _SIGNS[int(passed * 10) % len(_SIGNS)]
        print(f"\r{sign} {self._words} … {passed:.1f} s\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = True
