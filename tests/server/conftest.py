"""Fixtures for the tests of the server."""

from tests.support.crash import scene
from tests.support.harnesses import (
    bypassing_harness,
    harness,
    impatient_harness,
    own_harness,
    shared_api,
    shared_bypassing_harness,
    shared_harness,
    shared_impatient_harness,
)
from tests.support.messages_api.fixtures import api

__all__ = [
    "api",
    "bypassing_harness",
    "harness",
    "impatient_harness",
    "own_harness",
    "scene",
    "shared_api",
    "shared_bypassing_harness",
    "shared_harness",
    "shared_impatient_harness",
]
