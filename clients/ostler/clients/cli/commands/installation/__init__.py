"""Subcommands about the daemon and its installation, and about no session."""
