"""PowerShell on its way through the engine. A shell script stands in for `pwsh`: of pwsh itself this tells nothing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message, says
from tests.tools.shell.test_powershell import STAND_IN


@pytest.fixture
def pwsh_harness(own_harness: Callable[..., Harness], tmp_path: Path) -> Harness:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "pwsh").write_text(STAND_IN)
    (folder / "pwsh").chmod(0o755)
    return own_harness(PATH=f"{folder}:{os.environ['PATH']}")


def open_powershell_session(harness: Harness, given: Json, **session: Any) -> SessionDriver:
    driver = harness.open_session(**session)
    harness.api.script(driver.name, message(calls("PowerShell", given)), message(says("Done.")))
    return driver


def list_tool_names(driver: SessionDriver) -> list[str]:
    return [tool["name"] for tool in driver.requests[0].body["tools"]]


def test_it_is_offered_where_pwsh_is_found_and_rules_are_about_cmdlets(pwsh_harness: Harness) -> None:
    driver = open_powershell_session(pwsh_harness, {"command": "printf ran"}, rules={"allow": ["PowerShell(printf:*)"]})
    driver.run_turn()
    assert "PowerShell" in list_tool_names(driver)
    assert driver.fetch_result_texts() == ["ran"]
    for rules, by in (
        ({"deny": ["PowerShell(Get-ChildItem:*)"]}, "rule"),
        ({"deny": ["Read(./secret)"]}, "rule"),
    ):
        command = "gci secret" if "Get" in str(rules) else "Get-Content secret"
        driver = open_powershell_session(pwsh_harness, {"command": command}, rules=rules)
        driver.run_turn()
        call = driver.list_event_data("tool.completed")[0]["call"]
        assert (call["decision"]["behavior"], call["decision"]["by"]) == ("deny", by)


def test_what_only_reads_passes_and_everything_else_is_asked_about(pwsh_harness: Harness) -> None:
    driver = open_powershell_session(pwsh_harness, {"command": "Get-Location"})
    driver.run_turn()
    assert driver.list_event_data("ask.opened") == []
    decision = driver.list_event_data("tool.completed")[0]["call"]["decision"]
    assert (decision["behavior"], decision["by"]) == ("allow", "read_only")
    driver = open_powershell_session(pwsh_harness, {"command": "Remove-Item x"})
    turn = driver.start()
    driver.answer(driver.wait_for_ask(), "deny")
    driver.wait_for_turn_end(turn)


def test_it_goes_behind_its_call_as_bash_does(pwsh_harness: Harness) -> None:
    driver = open_powershell_session(
        pwsh_harness,
        {"command": "echo begun; until [ -e go ]; do sleep 0.05; done", "run_in_background": True},
        rules={"allow": ["PowerShell"]},
    )
    driver.run_turn()
    task = driver.wait("task.started")["data"]["task"]
    assert f"Running in background as {task['id']}" in driver.fetch_result_texts()[0]
    (driver.folder / "go").touch()
    ended = driver.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)
