"""One daemon for all probes."""

from collections.abc import Iterator

import pytest

from tests.security.target import Target, open_target


@pytest.fixture(scope="session")
def probed() -> Iterator[Target]:
    with open_target() as found:
        yield found
