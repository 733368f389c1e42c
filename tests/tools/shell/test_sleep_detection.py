"""Commands that only wait: found in all spellings, and refused."""

import re
from collections.abc import Callable

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio


BASH, POWERSHELL = Bash(), PowerShell()


# Waiting.


@try_each(
    ("tool", "command", "only"),
    [
        (BASH.only_sleeps, "sleep 1", True),
        (BASH.only_sleeps, " sleep 0.5s; ", True),
        (BASH.only_sleeps, "# wait\nsleep 1 >/dev/null # a moment", True),
        (BASH.only_sleeps, "sleep 1; ls", False),
        (BASH.only_sleeps, "ls", False),
        (POWERSHELL.only_sleeps, "Start-Sleep -Milliseconds 500", True),
        (POWERSHELL.only_sleeps, "Start-Sleep 1; Get-Date", False),
    ],
)
def test_what_only_waits_is_known(tool: Callable[[str], bool], command: str, only: bool) -> None:
    assert tool(command) is only


@pytest.mark.parametrize("given", [{"run_in_background": True}, {"timeout": 600_000}, {}])
async def test_a_wait_is_refused_however_it_is_to_be_run(session: Session, given: dict[str, object]) -> None:
    failure = await session.call(BASH, {"command": "sleep 2", **given})
    assert re.search("Sleep.*TaskOutput.*Monitor", getattr(failure, "message", ""))
    assert session.processes.started == []


@pytest.mark.parametrize("command", ["sleep 1", "sleep ${PAUSE-1000}", "(sleep 1; sleep 1)"])
async def test_what_only_sleeps_is_not_started_in_the_background(session: Session, command: str) -> None:
    failure = await session.call(BASH, {"command": command, "run_in_background": True})
    assert "never sent to the background" in getattr(failure, "message", "")
    assert session.processes.started == []
