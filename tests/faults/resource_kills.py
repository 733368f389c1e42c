"""SIGKILL while a task watches a changing resource of an MCP server: no line is lost, no server process is left."""

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller
from tests.faults.rows import Findings, Row
from tests.faults.task_kills import find_processes
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import Script
from tests.support.messages_api.server import ScriptedApi
from tests.support.repository import MCP_SERVERS

_SERVER: Final = MCP_SERVERS / "plain.py"
_MAX_WAIT_SECONDS: Final = 1.5
_LINE_INTERVAL_SECONDS: Final = 0.02
_DAY_MS: Final = 24 * 3600 * 1000


class _Writer(threading.Thread):
    """Adds numbered lines to the resource, whether the daemon runs or not."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self._path = path
        self._rng = rng
        self._done = threading.Event()

    def run(self) -> None:
        with self._path.open("a") as file:
            while not self._done.wait(self._rng.uniform(0, 2 * _LINE_INTERVAL_SECONDS)):
                self.lines.append(f"line {len(self.lines)}")
                file.write(self.lines[-1] + "\n")
                file.flush()

    def finish(self) -> None:
        self._done.set()
        self.join()


def kill_during_watch(
    folder: Path, *, count: int, seed: int, report: Callable[[str], None], seconds: float = 30
) -> Row:
    """Kill a daemon `count` times, or for so many seconds, while it watches a resource."""
    deadline, rng = time.monotonic() + seconds, random.Random(seed)
    log, findings, kills = folder / "log", Findings(), 0
    log.write_text("old\n")
    monitor_input = {"description": "d", "timeout": _DAY_MS, "mcp": {"server": "notes", "resource": "notes://log"}}
    script = Script("watch", (message(calls("Monitor", monitor_input)),), message(says("Done.")))
    with ScriptedApi(script, keep=False) as api:
        daemon = Daemon(folder / "home", environment=api.environment)
        writer = _Writer(log, random.Random(seed))
        try:
            daemon.start()
            task_id = _start_watch(daemon, folder, log)
            writer.start()
            while kills < count and time.monotonic() < deadline:
                threading.Event().wait(rng.uniform(0, _MAX_WAIT_SECONDS))
                daemon.kill()
                daemon.start()
                kills += 1
                report(f"{kills} kills of a daemon that watches")
            writer.finish()
            _check_lines(daemon, task_id, writer.lines, findings)
            _stop_and_check(daemon, folder, findings)
        finally:
            daemon.kill()
            daemon.end_commands()
    numbers = {"kills": kills, "lines": len(writer.lines)}
    return findings.build_row(
        "SIGKILL of who watches a resource", f"a line each {_LINE_INTERVAL_SECONDS} s, seed {seed}", **numbers
    )


def _start_watch(daemon: Daemon, folder: Path, log: Path) -> str:
    server = {"command": sys.executable, "args": [str(_SERVER), str(log)]}
    session: dict[str, Any] = {"rules": {"allow": ["mcp__notes"]}, "mcp_servers": {"notes": server}}
    with Caller(daemon) as caller:
        created = caller.call("session/create", cwd=str(folder), env={"FAULTS_TRIAL": str(folder)}, **session)
        caller.call("run", session_id=created["id"], input="[watch] go on")
        [task] = caller.call("task/list")["tasks"]
        return str(task["id"])


def _check_lines(daemon: Daemon, task_id: str, written: list[str], findings: Findings) -> None:
    """Every line in order, and once, except that a crash between two files may have repeated a run of lines."""
    with Caller(daemon) as caller:

        def read_lines() -> list[str]:
            output: str = caller.call("task/output", task_id=task_id)["output"]
            return output.splitlines()

        wait_until(lambda: read_lines()[-1:] == written[-1:], 30)
        lines = read_lines()
        findings.expect(caller.call("task/get", task_id=task_id)["status"] == "running", "it is over")
    findings.expect(list(dict.fromkeys(lines)) == written, f"lost or out of order: {set(written) - set(lines)}")


def _stop_and_check(daemon: Daemon, folder: Path, findings: Findings) -> None:
    servers = find_processes(folder)
    findings.expect(len(servers) == 1, f"{len(servers)} servers run")
    findings.expect(daemon.stop() == 0, "the last stop failed")
    findings.expect(not find_processes(folder), "a server was left")
