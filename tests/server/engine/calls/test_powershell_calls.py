"""PowerShell on its way through the engine. A shell script stands in for `pwsh`: of pwsh itself this tells nothing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says
from tests.tools.shell.test_powershell import STAND_IN


@pytest.fixture
def with_pwsh(own_stage: Callable[..., Stage], tmp_path: Path) -> Stage:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "pwsh").write_text(STAND_IN)
    (folder / "pwsh").chmod(0o755)
    return own_stage(PATH=f"{folder}:{os.environ['PATH']}")


def scripted(stage: Stage, given: Json, **session: Any) -> Talk:
    talk = stage.talk(**session)
    stage.api.script(talk.name, message(calls("PowerShell", given)), message(says("Done.")))
    return talk


def tools(talk: Talk) -> list[str]:
    return [tool["name"] for tool in talk.requests[0].body["tools"]]


def test_it_is_offered_where_pwsh_is_found_and_rules_are_about_cmdlets(with_pwsh: Stage) -> None:
    talk = scripted(with_pwsh, {"command": "printf ran"}, rules={"allow": ["PowerShell(printf:*)"]})
    talk.turn()
    assert "PowerShell" in tools(talk)
    assert talk.result_texts() == ["ran"]
    for rules, by in (
        ({"deny": ["PowerShell(Get-ChildItem:*)"]}, "rule"),
        ({"deny": ["Read(./secret)"]}, "rule"),
    ):
        command = "gci secret" if "Get" in str(rules) else "Get-Content secret"
        talk = scripted(with_pwsh, {"command": command}, rules=rules)
        talk.turn()
        call = talk.all("tool.completed")[0]["call"]
        assert (call["decision"]["behavior"], call["decision"]["by"]) == ("deny", by)


def test_what_only_reads_passes_and_everything_else_is_asked_about(with_pwsh: Stage) -> None:
    talk = scripted(with_pwsh, {"command": "Get-Location"})
    talk.turn()
    assert talk.all("ask.opened") == []
    decision = talk.all("tool.completed")[0]["call"]["decision"]
    assert (decision["behavior"], decision["by"]) == ("allow", "read_only")
    talk = scripted(with_pwsh, {"command": "Remove-Item x"})
    turn = talk.start()
    talk.answer(talk.ask(), "deny")
    talk.ended(turn)


def test_it_goes_behind_its_call_as_bash_does(with_pwsh: Stage) -> None:
    talk = scripted(
        with_pwsh,
        {"command": "echo begun; until [ -e go ]; do sleep 0.05; done", "run_in_background": True},
        rules={"allow": ["PowerShell"]},
    )
    talk.turn()
    task = talk.wait("task.started")["data"]["task"]
    assert f"Running in background as {task['id']}" in talk.result_texts()[0]
    (talk.folder / "go").touch()
    ended = talk.wait("task.ended")["data"]["task"]
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)
