"""A tool that exists only in tests."""
