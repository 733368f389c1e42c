"""How many examples of a property are tried: all of them in `make test`, a tenth of them in `make quick`."""

from typing import Final

from hypothesis import HealthCheck, settings

_USUAL: Final = 100

# How fast examples are made says something about the machine's neighbours, and nothing about the code.
settings.register_profile(
    "shared-machine", max_examples=_USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("shared-machine"), max_examples=_USUAL // 10)


def count_examples(count: int) -> int:
    """For a property with a number of its own: the same share of it."""
    return count * settings().max_examples // _USUAL
