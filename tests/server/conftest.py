"""Fixtures for the tests of the server."""

from tests.support.crash import scene
from tests.support.messages_api.fixtures import api
from tests.support.stages import (
    bypassing,
    impatient_stage,
    own_stage,
    shared_api,
    shared_bypassing,
    shared_impatient_stage,
    shared_stage,
    stage,
)

__all__ = [
    "api",
    "bypassing",
    "impatient_stage",
    "own_stage",
    "scene",
    "shared_api",
    "shared_bypassing",
    "shared_impatient_stage",
    "shared_stage",
    "stage",
]
