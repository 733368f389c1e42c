"""PowerShell: its parser and tables for real; how it is started with a program that stands in for `pwsh`."""

import base64
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.tools.commands import find_forbidding_rule, may_be_forbidden
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.powershell_parser import UnsupportedSyntax, parse_powershell
from ostler.tools.shell.powershell_policy import (
    NotReadOnly,
    classify_activity,
    find_subject,
    list_read_paths,
    load_cmdlets,
    parse_for_rules,
)
from ostler.tools.shell.running import program as shell_program
from ostler.tools.shell.running.program import ShellStart, build_powershell_script, encode_script
from ostler.tools.shell.sleep_detection import parse_powershell_sleep
from ostler.tools.tool import Allow, AskFirst, Failure, FolderChanged
from tests.support.clock import expire_limit_when
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
POWERSHELL = PowerShell()


# The parser.


@try_each(
    ("command", "words"),
    [
        ("Get-ChildItem", [("Get-ChildItem",)]),
        ("gc 'a b.txt' -Tail 5", [("gc", "a b.txt", "-Tail", "5")]),
        ("gc 'it''s'; gl", [("gc", "it's"), ("gl",)]),
        ('gc "a ""b"" c"', [("gc", 'a "b" c')]),
        ("a | b && c || d\ne", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("  Get-Date ; ", [("Get-Date",)]),
        ("git commit -m 'x'", [("git", "commit", "-m", "x")]),
    ],
)
def test_plain_commands_are_taken_apart(command: str, words: list[tuple[str, ...]]) -> None:
    found = parse_powershell(command)
    assert not isinstance(found, UnsupportedSyntax), found
    assert [each.words for each in found] == words


@try_each(
    "command",
    [
        "",
        "gc $x",
        'gc "$x"',
        'gc "a`nb"',
        "gc a`b",
        "gc (Get-Item x)",
        "gc $(x)",
        "gc @x",
        "gc @(1)",
        "1 + 1",
        "'text'",
        "'/etc/passwd' | gc",
        "[IO.File]::Delete('x')",
        "gc x > y",
        "gc x 2>&1",
        "gc x &",
        "& gc x",
        ". gc x",
        "ls | % { rm $_ }",
        "ls | ForEach-Object { $_ }",
        "if (1) { x }",
        "while 1",
        "function f",
        "gc x # comment",
        "gc --% x",
        "gc ~/x",
        "gc ‘x’",
        "gc –Path x",
        "gc\u00a0x",
        "gc x\r",
        "gc x\x1b",
        "gc 'x",
        'gc "x',
        "gc 'x'y",
        "gc x'y'",
        "gc x |",
        "gc x &&",
        "gc x,",
        "x" * 20_000,
        "../x.ps1",
        "./x.ps1",
        "$x = 1",
        "exit 3",
        "gc <# x #> y",
    ],
)
def test_what_is_not_plain_is_not_understood(command: str) -> None:
    assert isinstance(parse_powershell(command), UnsupportedSyntax)
    assert parse_for_rules(command).problem is not None


# The table.


@try_each(
    ("command", "paths"),
    [
        ("Get-Content a.txt", ["a.txt"]),
        ("get-content -path a.txt -tail 5 -RAW", ["a.txt"]),
        ("gc -Path:a.txt", ["a.txt"]),
        ("Get-ChildItem", ["."]),
        ("gci src -Recurse -Filter *.py -File", ["src"]),
        ("gci -Recurse | Select-Object -First 5 | Format-Table Name,Length", ["."]),
        ("Select-String foo a.txt", ["a.txt"]),
        ("Select-String -Pattern foo a.txt", ["a.txt"]),
        ("Select-String -Path a.txt foo", ["a.txt"]),
        ("Get-Content a.txt | Select-String 'foo bar' -CaseSensitive", ["a.txt"]),
        ("Test-Path a/b", ["a/b"]),
        ("Get-Process -Name bash | Sort-Object CPU -Descending", []),
        ("Get-Process | Where-Object Name -EQ bash | Measure-Object", []),
        ("Write-Output 'a' b c", []),
        ("Get-Date -Format yyyy", []),
        ("gci -Depth 2", ["."]),
    ],
)
def test_what_only_reads_is_known_with_all_that_it_reads(command: str, paths: list[str]) -> None:
    assert [each.path for each in list_read_paths(command)] == paths


@try_each(
    "command",
    [
        "Remove-Item x",
        "Set-Content x y",
        "Get-Content x | Set-Content y",
        "Get-Content x | Out-File y",
        "Get-ChildItem | Remove-Item",
        "Get-ChildItem | ForEach-Object Delete",
        "Write-Output /etc/passwd | Get-Content",
        "Get-Content -Wait x",
        "Get-Content -Stream x y",
        "Get-Content -Pat x",
        "Get-Content -p x",
        "Get-Content x y",
        "Get-Content Env:SECRET",
        "Get-Content HKLM:x",
        "Get-Content FileSystem::/etc/passwd",
        r"Get-Content ..\x",
        "Get-Content a,b",
        "Get-Content 'a[b]'",
        "Get-Content src/*/../../../x",
        "Get-Content x -OutVariable y",
        "Get-Content x -Path",
        "Get-ChildItem -FollowSymlink",
        "Get-Process -ComputerName other",
        "Get-Date -Bad x",
        "Invoke-Expression x",
        "iex x",
        "Invoke-WebRequest http://x",
        "Start-Process x",
        "git status",
        "ls",
        "cat x",
        "Get-Content x; rm y",
        "Get-Location && Set-Location x",
        "; ".join(["Get-Date"] * 51),
    ],
)
def test_everything_else_asks(command: str, session: Session) -> None:
    with pytest.raises(NotReadOnly):
        list_read_paths(command)


def test_the_table_is_in_order() -> None:
    for name, cmdlet in load_cmdlets().items():
        assert name == name.lower()
        assert cmdlet.name.partition("-")[0] in {
            "Get", "Test", "Resolve", "Select", "Split", "Join", "Write", "Where", "Sort", "Group", "Measure", "Format",
            "Out", "ConvertTo", "ConvertFrom",
        }  # fmt: skip
        assert not (cmdlet.switches & cmdlet.values) | (cmdlet.values & cmdlet.paths)
        assert {each.lower() for each in cmdlet.positional} <= cmdlet.values | cmdlet.paths
        assert not (cmdlet.piped and cmdlet.paths) or cmdlet.name == "Select-String"
        dangerous = {"wait", "scriptblock", "computername", "outvariable", "filterscript", "credential"}
        assert not dangerous & (cmdlet.switches | cmdlet.values | cmdlet.paths)


@try_each(
    ("command", "kind"),
    [
        ("Get-Content x", "read"),
        ("Get-ChildItem", "list"),
        ("gci | sls foo", "search"),
        ("Get-Content x | Select-Object -First 3", "read"),
        ("Get-Date", "run"),
        ("Remove-Item x", "run"),
    ],
)
def test_clients_fold_it_by_what_it_does(command: str, kind: str) -> None:
    assert classify_activity(command) == kind


async def test_what_only_reads_inside_the_roots_passes_and_the_rest_asks(session: Session, tmp_path: Path) -> None:
    assert await session.check(POWERSHELL, command="Get-ChildItem -Recurse") == Allow()
    given = POWERSHELL.parse({"command": "Get-ChildItem"})
    assert POWERSHELL.is_read_only(given)
    assert POWERSHELL.is_concurrency_safe(given)
    for command, why in (
        (f"Get-Content {tmp_path}/x", "outside the session's folders"),
        ("Get-Content ../x", "outside the session's folders"),
        ("Get-ChildItem ../*", "outside the session's folders"),
        ("Remove-Item x", "not in the table"),
        ("gc $x", "not fully understood"),
    ):
        check = await session.check(POWERSHELL, command=command)
        assert isinstance(check, AskFirst)
        assert why in check.reason
    (session.folder / "link").symlink_to(tmp_path)
    assert isinstance(await session.check(POWERSHELL, command="Get-Content link/x"), AskFirst)
    session.change_view(home=str(session.folder / "own"))
    (session.folder / "own").mkdir()
    own = await session.check(POWERSHELL, command="Get-Content own/token")
    assert isinstance(own, AskFirst)
    assert own.safety


def test_rules_see_the_cmdlet_whatever_it_was_called(session: Session) -> None:
    assert find_forbidding_rule(parse_for_rules("GCI src"), ["Get-ChildItem:*"]) == "Get-ChildItem:*"
    assert find_forbidding_rule(parse_for_rules("gci; Remove-Item x"), ["Remove-Item:*"]) == "Remove-Item:*"
    assert find_forbidding_rule(parse_for_rules("gci"), ["Remove-Item:*"]) is None
    assert may_be_forbidden(parse_for_rules("& $x"), ["Remove-Item:*"])


def test_rules_about_files_see_what_it_touches(session: Session) -> None:
    folder = str(session.folder)
    [read] = find_subject("Get-Content a.txt", folder).paths
    assert (read.written, read.writes, read.deep) == (f"{folder}/a.txt", False, False)
    [deep] = find_subject("gci src/*.py", folder).paths
    assert (deep.written, deep.deep) == (f"{folder}/src", True)
    written = find_subject("Set-Content -Path:b.txt x", folder).paths
    assert f"{folder}/b.txt" in [place.written for place in written if place.writes]


# Waiting.


@try_each(
    ("command", "seconds"),
    [
        ("Start-Sleep 5", 5),
        ("start-sleep -Seconds 5", 5),
        ("sleep 5", 5),
        ("Start-Sleep -s 5", 5),
        ("Start-Sleep -Sec 5", 5),
        ("Start-Sleep -Seconds:5", 5),
        ("Start-Sleep -Milliseconds 5000", 5),
        ("Start-Sleep -m 5000", 5),
        ("Start-Sleep -ms 5000", 5),
        ("Start-Sleep -Milli 2500; x", 2.5),
        ("Start-Sleep '5'", 5),
        ('Start-Sleep -Seconds "5"', 5),
        ("& Start-Sleep 5", 5),
        ("& 'Start-Sleep' 5", 5),
        (r"Microsoft.PowerShell.Utility\Start-Sleep 5", 5),
        ("Start-Sleep 1kb", 1024),
        ("Start-Sleep 0x10", 16),
        ("Start-Sleep 1e1", 10),
        ("Start-Sleep 1.5", 1.5),
        ("Start-Sleep -Duration 00:00:05", 5),
        ("Start-Sleep -Duration 1.00:00:00", 86400),
        ("Start-Sleep -d 00:01", 60),
        ("Start-Sleep -Duration (New-TimeSpan -Seconds 5)", 5),
        ("Start-Sleep -Duration (New-TimeSpan -Minutes 1 -Seconds 5)", 65),
        ("Start-Sleep -Duration ([TimeSpan]::FromSeconds(5))", 5),
        ("Start-Sleep -Duration ([timespan]::FromMilliseconds(500))", 0.5),
        (" \n Start-Sleep 5 | Out-Null", 5),
        ("# until it is up\nStart-Sleep 5", 5),
        ("<# until\nit is up #> Start-Sleep 5", 5),
        ("Start-Sleep 5 # seconds", 5),
        ("Start-Sleep 5 > $null; x", 5),
        ("Start-Sleep 5 2>&1 | Out-Null", 5),
    ],
)
def test_a_wait_is_known_in_all_its_spellings(command: str, seconds: float) -> None:
    found = parse_powershell_sleep(command)
    assert found is not None
    assert found[0] == seconds
    assert POWERSHELL.begins_with_sleep(command) is (seconds >= 2)


@try_each(
    "command",
    [
        "Get-Date; Start-Sleep 5",
        "Start-SleepX 5",
        "Start-Sleep",
        "Start-Sleep $x",
        "Get-Sleep 5",
        "sleeper 5",
        "# Start-Sleep 5",
    ],
)
def test_what_does_something_else_first_is_no_wait(command: str) -> None:
    assert parse_powershell_sleep(command) is None


def test_only_what_does_nothing_else_only_waits() -> None:
    assert POWERSHELL.only_sleeps("Start-Sleep -Seconds 1")
    assert POWERSHELL.only_sleeps("sleep 1;")
    assert not POWERSHELL.only_sleeps("sleep 1; Get-Date")
    assert not POWERSHELL.only_sleeps("Get-Date")


async def test_a_wait_is_refused(session: Session) -> None:
    failure = await session.call(POWERSHELL, {"command": "Start-Sleep -Milliseconds 2000; Get-Date"})
    assert isinstance(failure, Failure)
    assert "Monitor" in failure.message


# How it is started: a shell script takes the part of pwsh, so this tells nothing about pwsh itself.

STAND_IN = """#!/bin/sh
# Takes the last argument as pwsh does, and runs the command in it as a shell would.
for last; do :; done
script=$(printf %s "$last" | base64 -d | iconv -f UTF-16LE -t UTF-8)
command=$(printf %s "$script" | sed -n "s/.*FromBase64String('\\([^']*\\)').*/\\1/p" | base64 -d)
end=$(printf %s "$script" | sed -n "s/.*WriteAllText('\\([^']*\\)'.*/\\1/p")
printf '%s ' "$@" | sed "s/ [^ ]* $//" >"${TMPDIR:-/tmp}/pwsh-arguments.$PPID" 2>/dev/null
eval "$command"
code=$?
pwd >"$end"
exit $code
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "pwsh"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shell_program.find_pwsh.cache_clear()
    yield program
    shell_program.find_pwsh.cache_clear()


async def test_it_is_there_only_where_pwsh_is(
    session: Session, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert POWERSHELL.is_enabled(session.view)
    shell_program.find_pwsh.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    assert not POWERSHELL.is_enabled(session.view)


async def test_the_command_reaches_it_and_its_end_comes_back(session: Session, stand_in: Path) -> None:
    (session.folder / "sub").mkdir()
    result = await session.expect_result(POWERSHELL, command="echo 'it'\"'\"'s é'; cd sub; (exit 7)")
    assert result.output.stdout == "it's é\n"
    assert result.output.exit_code == 7
    assert result.is_error
    assert result.changes == [FolderChanged(str(session.folder / "sub"))]
    assert len(session.processes.started) == len(session.processes.ended) == 1


async def test_it_is_ended_in_time_with_all_that_it_started(
    session: Session, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = expire_limit_when(session.folder / "ready", monkeypatch)
    command = "echo on; sleep 4247 & touch ready; sleep 4247"
    result = await session.expect_result(POWERSHELL, command=command, timeout=limit)
    assert result.output.timed_out
    # The stand-in is a shell: where its child falls before it does, it says so.
    assert result.output.stdout == "on\n"


async def test_it_has_the_options_that_keep_it_from_waiting(session: Session, tmp_path: Path, stand_in: Path) -> None:
    await session.expect_result(POWERSHELL, command="true")
    [name] = [name for name in os.listdir(tmp_path) if name.startswith("pwsh-arguments.")]
    assert (tmp_path / name).read_text().split() == [
        "-NoLogo",
        "-NoProfile",
        "-NonInteractive",
        "-OutputFormat",
        "Text",
        "-EncodedCommand",
    ]


async def test_it_has_the_same_input_limits_and_schema_as_bash(session: Session, stand_in: Path) -> None:
    schema = POWERSHELL.input_schema(session.view)["properties"]
    assert set(schema) == {"command", "timeout", "description", "run_in_background"}
    assert isinstance(await session.call(POWERSHELL, {"command": "x" * 30_001}), Failure)
    longest = "é" * 15_000
    assert len(encode_script(build_powershell_script(ShellStart(longest, "/", "/e", 0)))) < 128 * 1024
    assert "run_in_background" not in POWERSHELL.description(session.change_view(background=False).view)


async def test_git_is_told_of_here_too(session: Session, stand_in: Path) -> None:
    result = await session.expect_result(
        POWERSHELL,
        command="git init -q . && git -c user.name=A -c user.email=a@b.c commit --allow-empty -m x",
    )
    assert result.output.git.commit.kind == "committed"


def test_the_script_holds_the_command_where_nothing_in_it_can_break_out() -> None:
    begin = ShellStart("'); Remove-Item x #\n@end@", "/", "/it's", 0o022)
    script = build_powershell_script(begin)
    assert "Remove-Item" not in script
    assert base64.b64encode(begin.command.encode()).decode() in script
    assert "WriteAllText('/it''s'" in script


async def test_what_was_allowed_is_what_runs(session: Session, stand_in: Path) -> None:
    script = session.folder / "x.ps1"
    script.write_text("one")
    for change in ("script", "folder", "nothing"):
        context, given = session.make_context(), POWERSHELL.parse({"command": "sh ./x.ps1"})
        await POWERSHELL.check_permission(given, context)
        if change == "script":
            script.write_text("echo another")
        if change == "folder":
            context = replace(context, session=replace(context.session, shell_folder="/"))
        assert isinstance(await POWERSHELL.run(given, context), Failure) is (change != "nothing"), change
