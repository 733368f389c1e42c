"""`python -m tests.messages_api --script FILE.json --port 0`: the scripted server as its own process.

Prints its URL. `GET /record` tells what happened so far, `DELETE /record` forgets it. SIGTERM ends it.
"""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.support.messages_api.script_files import script_of
from tests.support.messages_api.server import ScriptedApi


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.messages_api", description="A scripted Messages API.")
    parser.add_argument("--script", type=Path, required=True, metavar="FILE", help="scripts as JSON")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--lenient", action="store_true", help="check nothing: for measurements")
    return parser.parse_args()


async def _serve(api: ScriptedApi, port: int) -> None:
    def ready() -> None:
        sys.stdout.write(f"{api.url}\n")
        sys.stdout.flush()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, api.stop)
    await api.serve(port, ready)


def main() -> None:
    arguments = _arguments()
    told = json.loads(arguments.script.read_text())
    default = script_of(told["default"]) if "default" in told else None
    scripts = [script_of(each) for each in told.get("scripts", [])]
    asyncio.run(
        _serve(ScriptedApi(*scripts, default=default, strict=not arguments.lenient, keep=False), arguments.port)
    )


if __name__ == "__main__":
    main()
