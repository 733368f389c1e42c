"""Time limits that pass when a command is ready for that, so that no machine is too slow for a test of them."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from ostler.tools.shell.running import command

LIMIT_MS: Final = 600_000
_AHEAD_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class SkippingClock:
    """Runs an hour ahead as soon as a file is there."""

    ready: Path

    def monotonic(self) -> float:
        return time.monotonic() + (_AHEAD_SECONDS if self.ready.exists() else 0.0)


def expire_limit_when(ready: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit in milliseconds that is over for commands when the file is there, and not before."""
    monkeypatch.setattr(command, "time", SkippingClock(ready))
    return LIMIT_MS
