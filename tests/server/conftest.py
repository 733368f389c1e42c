"""Fixtures for the tests of the server's parts."""

from tests.messages_api.fixtures import api

__all__ = ["api"]
