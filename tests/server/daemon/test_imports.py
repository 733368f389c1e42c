"""What the daemon has imported when it is ready, and when its first turn is over: nobody waits for anything else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi

MARK = "import time:"
NEVER_ASKED_FOR = {
    "anthropic",
    "fastapi",
    "filelock",
    "httpx2",
    "mcp",
    "PIL",
    "prometheus_client",
    "psutil",
    "pypdfium2",
    "rich",
    "tomlkit",
    "typer",
}
"""Not even the first turn needs them."""
AFTER_READY = {"starlette", "tree_sitter", "uvicorn", "ostler.server.engine", "ostler.tools.builtin"}
MOST_MODULES_AT_READY = 480
"""There are 425; a number that grows by itself is a start that becomes slower by itself."""


def list_imports(lines: list[str]) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith(MARK)}


def run_first_turn(home: Path, folder: Path, environment: dict[str, str], model: str) -> tuple[set[str], set[str]]:
    """What was imported before the ready line, and what from there to the end of the first turn."""
    with Daemon(home, environment={"PYTHONPROFILEIMPORTTIME": "1", **environment}, cold=True) as daemon:
        at_ready = len(daemon.stderr.splitlines())
        session = daemon.call("session/create", cwd=str(folder), model=model)["id"]
        assert daemon.call("run", session_id=session, input="hello")["turn"]["reason"] == "completed"
        lines = daemon.stderr.splitlines()
    # The line of the log stands before the one on stdout; what is imported between the two does not matter here.
    ready = next(number for number, line in enumerate(lines[:at_ready]) if "ready" in line and MARK not in line)
    return list_imports(lines[:ready]), list_imports(lines[ready:])


@pytest.mark.parametrize("model", ["rehearsal", "claude-sonnet-4-5"])
def test_nothing_is_imported_that_the_first_turn_does_not_need(home: Path, tmp_path: Path, model: str) -> None:
    with ScriptedApi() as api:
        api.always(message(says("hi")))
        key = {} if model == "rehearsal" else {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-of-the-test"}
        early, late = run_first_turn(home, tmp_path, {"OSTLER_REHEARSAL_PACE_MS": "0", **key}, model)
    # An import of something that is not there is a line, too; nothing comes below it.
    assert {name for name in early if name.split(".")[0] in NEVER_ASKED_FOR and "." in name} == set()
    assert {name for name in late if name.split(".")[0] in NEVER_ASKED_FOR and "." in name} == set()
    assert "importlib.metadata" not in early | late
    assert early & AFTER_READY == set()
    assert len(early) < MOST_MODULES_AT_READY
    assert ("ostler.server.models.http" in late) == (model != "rehearsal")
    assert late >= {"uvicorn", "ostler.server.engine", "ostler.tools.builtin"}


def test_imports_are_read_as_python_writes_them() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import json.decoder"], capture_output=True, text=True, check=True
    )
    assert {"json", "json.decoder"} <= list_imports(done.stderr.splitlines())
