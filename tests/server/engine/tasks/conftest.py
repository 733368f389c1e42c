"""After each test here nothing of its tasks is left: no process, no file; those of a killed daemon are ended here."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.daemon import wait_until
from tests.support.driver import Harness, is_gone


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the resource of an MCP server says."""
    path = tmp_path / "log"
    path.write_text("old\n")
    return path


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    shared: Harness | None = request.getfixturevalue("shared_harness") if "harness" in request.fixturenames else None
    place = shared.folder if shared is not None else tmp_path
    yield
    left = _list_commands_below(place)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if shared is not None:
        assert not left, "commands of this test were left running"
        # Files of foreground commands are removed a moment after their results.
        wait_until(lambda: not os.listdir(shared.daemon.home / "tasks"))


def _list_commands_below(folder: Path) -> list[int]:
    """Processes that belong to a call and run in a folder of this test's."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_command(name, str(folder))]


def _is_command(pid: str, folder: str) -> bool:
    try:
        marked = b"OSTLER_CALL=" in Path(f"/proc/{pid}/environ").read_bytes()
        return marked and os.readlink(f"/proc/{pid}/cwd").startswith(folder) and not is_gone(int(pid))
    except OSError:
        return False
