"""Fixtures for the tests of the turn engine."""

from tests.engine.crash import scene
from tests.engine.stages import impatient_stage, own_stage, shared_api, shared_impatient_stage, shared_stage, stage
from tests.messages_api.fixtures import api

__all__ = [
    "api",
    "impatient_stage",
    "own_stage",
    "scene",
    "shared_api",
    "shared_impatient_stage",
    "shared_stage",
    "stage",
]
