"""The provider for the Messages API."""
