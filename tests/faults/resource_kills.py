"""SIGKILL while a resource of an MCP server is watched that changes all the time: no line is lost, no server stays."""

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller
from tests.faults.rows import Findings, Row
from tests.faults.task_kills import processes_of
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import Script
from tests.support.messages_api.server import ScriptedApi
from tests.support.repository import MCP_SERVERS

_SERVER: Final = MCP_SERVERS / "plain.py"
_LONGEST: Final = 1.5
_BETWEEN_LINES: Final = 0.02
_DAY_MS: Final = 24 * 3600 * 1000


class _Writer(threading.Thread):
    """Adds a numbered line to the resource now and then, whoever looks."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self._path = path
        self._chance = chance
        self._done = threading.Event()

    def run(self) -> None:
        with self._path.open("a") as file:
            while not self._done.wait(self._chance.uniform(0, 2 * _BETWEEN_LINES)):
                self.lines.append(f"line {len(self.lines)}")
                file.write(self.lines[-1] + "\n")
                file.flush()

    def finish(self) -> None:
        self._done.set()
        self.join()


def resource_kills(folder: Path, *, count: int, seed: int, say: Callable[[str], None], seconds: float = 30) -> Row:
    """Kill a daemon `count` times, or for so many seconds, while it watches."""
    deadline, chance = time.monotonic() + seconds, random.Random(seed)
    log, findings, kills = folder / "log", Findings(), 0
    log.write_text("old\n")
    given = {"description": "d", "timeout": _DAY_MS, "mcp": {"server": "notes", "resource": "notes://log"}}
    script = Script("watch", (message(calls("Monitor", given)),), message(says("Done.")))
    with ScriptedApi(script, keep=False) as api:
        daemon = Daemon(folder / "home", environment=api.environment)
        writer = _Writer(log, random.Random(seed))
        try:
            daemon.start()
            task_id = _begin(daemon, folder, log)
            writer.start()
            while kills < count and time.monotonic() < deadline:
                threading.Event().wait(chance.uniform(0, _LONGEST))
                daemon.kill()
                daemon.start()
                kills += 1
                say(f"{kills} kills of a daemon that watches")
            writer.finish()
            _compare(daemon, task_id, writer.lines, findings)
            _leave(daemon, folder, findings)
        finally:
            daemon.kill()
            daemon.end_commands()
    numbers = {"kills": kills, "lines": len(writer.lines)}
    return findings.row("SIGKILL of who watches a resource", f"a line each {_BETWEEN_LINES} s, seed {seed}", **numbers)


def _begin(daemon: Daemon, folder: Path, log: Path) -> str:
    server = {"command": sys.executable, "args": [str(_SERVER), str(log)]}
    session: dict[str, Any] = {"rules": {"allow": ["mcp__notes"]}, "mcp_servers": {"notes": server}}
    with Caller(daemon) as caller:
        created = caller.call("session/create", cwd=str(folder), env={"FAULTS_TRIAL": str(folder)}, **session)
        caller.call("run", session_id=created["id"], input="[watch] go on")
        [task] = caller.call("task/list")["tasks"]
        return str(task["id"])


def _compare(daemon: Daemon, task_id: str, written: list[str], findings: Findings) -> None:
    """Every line once and in order, save what a crash between two files told twice: a run of lines, again."""
    with Caller(daemon) as caller:

        def printed() -> list[str]:
            output: str = caller.call("task/output", task_id=task_id)["output"]
            return output.splitlines()

        wait_until(lambda: printed()[-1:] == written[-1:], 30)
        told = printed()
        findings.expect(caller.call("task/get", task_id=task_id)["status"] == "running", "it is over")
    findings.expect(list(dict.fromkeys(told)) == written, f"lost or out of order: {set(written) - set(told)}")


def _leave(daemon: Daemon, folder: Path, findings: Findings) -> None:
    servers = processes_of(folder)
    findings.expect(len(servers) == 1, f"{len(servers)} servers run")
    findings.expect(daemon.stop() == 0, "the last stop failed")
    findings.expect(not processes_of(folder), "a server was left")
