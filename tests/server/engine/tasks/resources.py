"""Sessions with MCP servers whose resource is a file."""

import sys
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE
from tests.support.repository import MCP_SERVERS

Json = dict[str, Any]
ALLOWED = {"allow": ["mcp__notes"]}
NO_SERVER_TOOLS = ["Agent", "Bash", "Monitor", "Read", "Sleep", "TaskOutput", "TaskStop"]
"""With these, a server runs for its monitors only, and ends with them."""
PLAIN, NEWER = str(MCP_SERVERS / "plain.py"), str(MCP_SERVERS / "newer.py")


def monitor(uri: str = "notes://log", server: str = "notes", **given: Any) -> Reply:
    what = {"server": server, "resource": uri}
    return message(calls("Monitor", {"description": "the notes", "timeout": 60_000, "mcp": what, **given}))


def make_plain_server(path: Path, *behaviours: str) -> Json:
    return {"notes": {"command": sys.executable, "args": [PLAIN, str(path), *behaviours]}}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def wait_for_output(driver: SessionDriver, text: str) -> None:
    """Wait until the clients know of it, after which the monitor hears it."""
    driver.wait("task.output", lambda data: text in data["text"])


def read_pid(log: Path) -> int:
    return int(log.with_suffix(".pid").read_text())


def start_monitor_session(harness: Harness, log: Path, *behaviours: str, **given: Any) -> SessionDriver:
    """A session that watches the log, in a turn that is over."""
    driver = harness.open_session(rules=ALLOWED, tools=NO_SERVER_TOOLS, mcp_servers=make_plain_server(log, *behaviours))
    harness.api.script(driver.name, monitor(**given), DONE, DONE, DONE)
    driver.run_turn()
    assert driver.fetch_result_texts()[0].startswith("Monitoring as m")
    return driver


def make_monitor_input() -> Json:
    return {"description": "d", "timeout": 60_000, "mcp": {"server": "notes", "resource": "notes://log"}}
