"""A tool that only tests have."""
