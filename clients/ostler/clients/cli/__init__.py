"""The `ostler` command. Each command imports what only it needs, so that `--help` and `status` are quick."""

import gc
import sys


def main() -> None:
    """Run the command; `serve` becomes the daemon, and `run` begins to start one, before all else is imported."""
    from ostler.clients.cli.direct_serve import serve_directly
    from ostler.clients.cli.early_start import start_early

    serve_directly(sys.argv[1:])
    start_early(sys.argv[1:])

    # What is imported stays: looking for garbage among it only costs time.
    gc.disable()
    from ostler.protocol.deferred_methods import defer_methods

    defer_methods()
    from ostler.clients.cli.app import main as run_app

    gc.freeze()
    gc.enable()
    run_app()


__all__ = ["main"]
