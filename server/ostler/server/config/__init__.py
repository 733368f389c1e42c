"""The configuration of the daemon, its token, and its private files."""
