"""Fixtures for the tests of the scripted server."""

from tests.support.messages_api.fixtures import api

__all__ = ["api"]
