"""One daemon for all that is tried."""

from collections.abc import Iterator

import pytest

from tests.security.target import Target, target


@pytest.fixture(scope="session")
def probed() -> Iterator[Target]:
    with target() as found:
        yield found
