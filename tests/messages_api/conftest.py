"""Fixtures for the tests of the scripted server."""

from tests.messages_api.fixtures import api

__all__ = ["api"]
