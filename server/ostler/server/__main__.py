"""`python -P -m ostler.server`: the daemon in the foreground."""

import argparse
import gc
import os
import sys
from pathlib import Path

# The imports that follow make many objects that all stay; collecting garbage among them only costs time.
gc.disable()

from ostler.protocol.deferred_methods import defer_methods  # noqa: E402
from ostler.protocol.installed import skip_model_plugins  # noqa: E402

defer_methods()
skip_model_plugins()

import anyio  # noqa: E402

from ostler.protocol.places import find_places  # noqa: E402
from ostler.server.config.configuration import BadConfig, Configuration, load_configuration  # noqa: E402
from ostler.server.config.private_files import UnsafeFile, ensure_private_folder  # noqa: E402
from ostler.server.daemon.instance import AlreadyRunning, lock_home  # noqa: E402
from ostler.server.daemon.lifecycle import harden_process, run_daemon  # noqa: E402
from ostler.server.observability.logs import LogFile, set_up_logs  # noqa: E402
from ostler.server.settings import BadPolicy  # noqa: E402
from ostler.storage import StorageTrouble  # noqa: E402

_GC_THRESHOLD = 20_000
"""How many new objects start a garbage collection."""


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ostler serve", description="Run the daemon in the foreground.")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on, 0 for any (default: 7717)")
    parser.add_argument("--socket", help="path of the Unix socket (default: in the runtime folder)")
    parser.add_argument("--home", help="one folder for everything (default: OSTLER_HOME, or the XDG folders)")
    parser.add_argument("--model", help="model of new sessions")
    parser.add_argument("--allow-host", action="append", metavar="HOST", help="a further name of this daemon")
    parser.add_argument("--log-file", help="write the log here instead of to stderr, and rotate it")
    return parser.parse_args()


def _collect_flags(arguments: argparse.Namespace) -> dict[str, object]:
    flags = {
        "listen.host": arguments.host,
        "listen.port": arguments.port,
        "listen.socket": os.path.abspath(arguments.socket) if arguments.socket else None,
        "listen.allow_hosts": arguments.allow_host,
        "model": arguments.model,
    }
    return {key: value for key, value in flags.items() if value is not None}


def _set_up_logs(configuration: Configuration, log_file: str | None) -> None:
    log = configuration.current.log
    file = LogFile(Path(os.path.abspath(log_file)), log.max_bytes) if log_file else None
    set_up_logs(level=log.level, as_json=log.format == "json", file=file)


def main() -> int:
    arguments = _parse_arguments()
    umask = harden_process()
    places = find_places(arguments.home)
    try:
        for folder in places.folders:
            ensure_private_folder(folder)
        instance = lock_home(places)
        try:
            configuration = load_configuration(
                places.config_file, _collect_flags(arguments), os.environ, places.credentials_file
            )
            _set_up_logs(configuration, arguments.log_file)
            # Not where somebody happened to start it: that folder may go, and commands would complain.
            os.chdir("/")
            # Collecting is switched on again when what the first turn needs is loaded (`Providers.warm_up`).
            # A turn makes some ten thousand objects that live for a moment, and hardly a cycle among them: to
            # collect every 700 objects, as Python does by itself, costs a tenth of its time.
            gc.set_threshold(_GC_THRESHOLD, 10, 10)
            # anyio.run and not asyncio.run: else each of anyio's locks and scopes has to detect the event loop anew.
            anyio.run(run_daemon, places, configuration, instance, umask)
        finally:
            instance.release()
    except (AlreadyRunning, BadConfig, BadPolicy, UnsafeFile, StorageTrouble, OSError) as error:
        print(f"ostler: {error}", file=sys.stderr)  # noqa: T201 - for a person at a terminal
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
