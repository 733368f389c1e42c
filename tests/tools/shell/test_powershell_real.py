"""PowerShell itself: what our script around a command makes of it. Only where a `pwsh` is on the PATH."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import program
from ostler.tools.tool import FolderChanged
from tests.support.clock import expire_limit_when
from tests.support.tool_calls import Session, is_alive, poll_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("pwsh") is None, reason="there is no pwsh on the PATH"),
]
POWERSHELL = PowerShell()


@pytest.fixture(autouse=True)
def clear_pwsh_cache() -> None:
    """Forgets the stand-in that other tests have for pwsh."""
    program.find_pwsh.cache_clear()


async def run_powershell(session: Session, command: str, **given: Any) -> ShellOutput:
    with anyio.fail_after(60):
        output: ShellOutput = (await session.expect_result(POWERSHELL, command=command, **given)).output
    return output


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("Write-Output fine", 0),
        ("exit 3", 3),
        ("& sh -c 'exit 7'", 7),
        ("& sh -c 'exit 7'; Write-Output later", 0),
        ("Get-Item no-such-file", 1),
        ("Get-Item no-such-file -ErrorAction SilentlyContinue; Write-Output later", 0),
        ("throw 'a mistake'", 1),
        ("Write-Error 'a mistake'", 1),
        ("if (", 1),
        ("$x = 1; $x # a comment at the end", 0),
        ("& sh -c 'exit 1' || Write-Output other", 0),
        ("& sh -c 'exit 4' && Write-Output never", 4),
    ],
)
async def test_the_exit_code_is_that_of_the_last_statement(session: Session, command: str, code: int) -> None:
    assert (await run_powershell(session, command)).exit_code == code


async def test_the_last_exit_code_is_the_commands_own(session: Session) -> None:
    output = await run_powershell(session, '& sh -c "exit 9"; Write-Output "code $LASTEXITCODE"')
    assert output.stdout.endswith("code 9\n")  # newer ones say before it that the program failed
    assert output.exit_code == 0
    assert (await run_powershell(session, 'Write-Output "code $LASTEXITCODE"')).stdout == "code 0\n"


async def test_the_folder_is_kept_and_nothing_else_is(session: Session) -> None:
    (session.folder / "sub dir").mkdir()
    result = await session.expect_result(POWERSHELL, command="Set-Location 'sub dir'; $kept = 1; function f { 1 }")
    assert result.changes == [FolderChanged(str(session.folder / "sub dir"))]
    session.change_view(shell_folder=str(session.folder / "sub dir"))
    output = await run_powershell(session, 'Write-Output "$PWD [$kept]"; Test-Path function:f')
    assert output.stdout == f"{session.folder}/sub dir []\nFalse\n"


@pytest.mark.parametrize("ending", ["exit 5", "throw 'x'", "& sh -c 'exit 2'"])
async def test_the_folder_is_kept_however_the_command_ends(session: Session, ending: str) -> None:
    (session.folder / "sub").mkdir()
    result = await session.expect_result(POWERSHELL, command=f"Set-Location sub; {ending}")
    assert result.is_error
    assert result.changes == [FolderChanged(str(session.folder / "sub"))]


async def test_a_location_that_is_no_folder_changes_nothing(session: Session) -> None:
    result = await session.expect_result(POWERSHELL, command="Set-Location Env:")
    assert (result.output.exit_code, result.changes) == (0, [])


async def test_a_folder_outside_the_roots_is_put_back_and_told(session: Session) -> None:
    result = await session.expect_result(POWERSHELL, command="Set-Location /")
    assert result.changes == []
    assert "outside the session's folders" in result.output.stderr


async def test_any_character_goes_in_and_comes_out(session: Session) -> None:
    text = "é 中 😀 “quoted” 'single' `tick` $notavariable"
    output = await run_powershell(
        session, "Write-Output '" + text.replace("'", "''").replace("“", '"').replace("”", '"') + "'"
    )
    assert output.stdout == text.replace("“", '"').replace("”", '"') + "\n"
    (session.folder / "ünicode").write_text("ä\n", encoding="utf-8")
    assert (await run_powershell(session, "Get-Content ünicode; & cat ünicode")).stdout == "ä\nä\n"


async def test_objects_are_shown_whole_before_the_end(session: Session) -> None:
    shown = (await run_powershell(session, "[pscustomobject]@{first = 'one'; second = 'two'}")).stdout
    assert "first" in shown
    assert "two" in shown
    (session.folder / "a.txt").write_text("x")
    assert "a.txt" in (await run_powershell(session, "Get-ChildItem")).stdout


async def test_all_streams_that_people_read_are_there_in_order(session: Session) -> None:
    command = (
        "[Console]::Out.WriteLine('one'); [Console]::Error.WriteLine('two'); Write-Output 'three'; "
        "Write-Warning 'four'; Write-Host 'five'; Write-Verbose 'never'; Write-Debug 'never'"
    )
    lines = (await run_powershell(session, command)).stdout.splitlines()
    assert [line.removeprefix("WARNING: ") for line in lines] == ["one", "two", "three", "four", "five"]


@pytest.mark.parametrize(
    "command",
    [
        "Write-Error 'a mistake'",
        "throw 'a mistake'",
        "Write-Progress -Activity hidden -Status hidden -PercentComplete 50; Write-Error 'a mistake'",
        "1..3 | ForEach-Object { Write-Progress -Activity hidden -PercentComplete $_ }; throw 'a mistake'",
    ],
)
async def test_mistakes_are_words_and_progress_is_nothing(session: Session, command: str) -> None:
    output = await run_powershell(session, command)
    assert "a mistake" in output.stdout
    for never in ("CLIXML", "<Objs", "hidden", "\x1b"):
        assert never not in output.stdout


async def test_a_mistake_in_its_grammar_is_explained(session: Session) -> None:
    output = await run_powershell(session, "Get-Item (")
    assert output.exit_code == 1
    assert "expression" in output.stdout.lower()


async def test_a_command_that_does_not_exist_is_named(session: Session) -> None:
    output = await run_powershell(session, "no-such-command")
    assert output.exit_code
    assert "no-such-command" in output.stdout


async def test_no_match_is_no_mistake_here_either(session: Session) -> None:
    result = await session.expect_result(POWERSHELL, command="Write-Output a | grep b")
    assert not result.is_error
    assert result.output.return_code_interpretation == "no match"


async def test_colours_of_its_own_are_off(session: Session) -> None:
    assert "\x1b" not in (await run_powershell(session, "Get-ChildItem / | Format-Table; Get-Item no-such-file")).stdout


async def test_nothing_waits_for_keys_that_nobody_can_press(session: Session) -> None:
    for command in ("Read-Host 'name'", "Get-Content", "Remove-Item . -Recurse -Confirm"):
        assert (await run_powershell(session, command)).exit_code != 0, command
    assert (await run_powershell(session, "$input | Measure-Object | ForEach-Object Count; & cat")).exit_code == 0


async def test_the_profile_of_the_person_is_left_out(session: Session, tmp_path: Path) -> None:
    for folder in (".config/powershell", "powershell"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "profile.ps1").write_text("Write-Output 'from the profile'\n")
    session.change_view(environment={"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    assert (await run_powershell(session, "Write-Output only")).stdout == "only\n"


async def test_a_timeout_ends_it_with_all_that_it_started(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    command = (
        "Write-Output on; & sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $! >child'; $PID | Set-Content own; "
        "Set-Content ready x; while ($true) { Start-Sleep -Milliseconds 50 }"
    )
    output = await run_powershell(session, command, timeout=limit)
    assert output.timed_out
    assert output.stdout.startswith("on\n")
    for name in ("child", "own"):
        assert not is_alive(int((session.folder / name).read_text()))


async def test_what_it_leaves_running_is_ended(session: Session) -> None:
    output = await run_powershell(session, "& sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'")
    pid = int(output.stdout)
    await poll_until(lambda: not is_alive(pid))
    assert "sleep" in output.stderr


async def test_the_longest_command_that_is_taken_runs(session: Session) -> None:
    command = f"Write-Output '{'x' * (POWERSHELL.max_command_bytes - 15)}'"
    assert len(command) == POWERSHELL.max_command_bytes
    assert (await run_powershell(session, command)).stdout.count("x") == POWERSHELL.max_command_bytes - 15
