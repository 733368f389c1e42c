"""The `ostler` command. Each command imports what only it needs, so that `--help` and `status` are quick."""

from ostler.clients.cli.app import main

__all__ = ["main"]
