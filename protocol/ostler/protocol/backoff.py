"""How long to wait before something is tried again: the one policy of all who try, in the daemon and in its clients."""

import random
from dataclasses import dataclass
from typing import Final

_MAX_DOUBLINGS: Final = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """Twice as long each time, up to a most, and spread: a hundred who failed together do not come back together."""

    first_seconds: float
    most_seconds: float

    def compute_wait(self, failures: int) -> float:
        """The seconds to wait after this many failures in a row, from one on."""
        wait: float = self.first_seconds * 2 ** min(failures - 1, _MAX_DOUBLINGS)
        return min(wait, self.most_seconds) * random.uniform(0.75, 1.0)  # noqa: S311 - to spread, not to hide
