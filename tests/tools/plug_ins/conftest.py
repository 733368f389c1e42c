"""Fixtures for the tests of plug-ins."""

from tests.support.messages_api.fixtures import api

__all__ = ["api"]
