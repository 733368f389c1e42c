"""How many examples of a property are tried: all of them in `make test`, a tenth of them in `make quick`."""

import random
from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import HealthCheck, settings

_USUAL: Final = 100
Row = TypeVar("Row")

# How fast examples are made says something about the machine's neighbours, and nothing about the code.
settings.register_profile(
    "shared-machine", max_examples=_USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("shared-machine"), max_examples=_USUAL // 10)


def count_examples(count: int) -> int:
    """For a property with a number of its own: the same share of it."""
    return count * settings().max_examples // _USUAL


def choose_examples(rows: Sequence[Row]) -> Sequence[Row]:
    """Of a table whose rows are as many tries of one property: the same share, others in each run."""
    chosen = set(random.sample(range(len(rows)), count_examples(len(rows))))
    return [row for number, row in enumerate(rows) if number in chosen]
