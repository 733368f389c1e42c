"""`python -m tests.support.messages_api --script FILE.json --port 0`: the scripted server as its own process.

Prints its URL. `GET /record` lists the requests so far, `DELETE /record` clears the list. SIGTERM ends it.
"""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.support.messages_api.script_files import parse_script
from tests.support.messages_api.server import ScriptedApi


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.messages_api", description="A scripted Messages API."
    )
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
    arguments = _parse_arguments()
    data = json.loads(arguments.script.read_text())
    default = parse_script(data["default"]) if "default" in data else None
    scripts = [parse_script(each) for each in data.get("scripts", [])]
    asyncio.run(
        _serve(ScriptedApi(*scripts, default=default, strict=not arguments.lenient, keep=False), arguments.port)
    )


if __name__ == "__main__":
    main()
