"""The shells that commands run in: started behind a gate, and telling at the end where they were and how it went."""

import base64
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Begin:
    """What a shell is started with."""

    command: str
    folder: str
    end_path: str
    """The file for the folder in which it ends, and for its exit code in the last line."""
    umask: int
    definitions: str | None = None
    """A file with the person's functions and aliases; null where the command is to mean just what it says."""


ShellProgram = Callable[[Begin], list[str]]
"""The command line. Looks for the program, and so blocks."""


def bash(begin: Begin) -> list[str]:
    return [bash_path(), "--noprofile", "--norc", "-c", bash_script(begin), "bash", begin.command]


def bash_script(begin: Begin) -> str:
    """Waits at the gate, runs its argument in a shell below it, and says how that ended.

    The shell above stays to write the exit code down: a daemon that starts later cannot wait for it.
    """
    end = shlex.quote(begin.end_path)
    # Nobody hears of it, not even in a command that shows what it runs.
    at_the_end = shlex.quote(f"{{ builtin pwd -P >|{end}; }} >/dev/null 2>&1")
    known = f". {shlex.quote(begin.definitions)} 2>/dev/null; " if begin.definitions else ""
    # A command that has put a trap of its own in the place of ours tells, too, unless it leaves with `exit`.
    told = f'\\builtin set +vx -- "$?"; \\builtin trap - DEBUG; \\builtin pwd -P >|{end}'
    after = f'{{ {told}; }} >/dev/null 2>&1; \\builtin exit "$1"'
    # In one line, so that the shell counts the command's own lines from 1.
    return "; ".join(
        (
            *_gate(begin, "builtin "),
            # The command sees no arguments, and itself where a shell that was started for it has it.
            "BASH_EXECUTION_STRING=$1; set --",
            # The shell above says nothing itself: of a command that dies by a signal it would show all of this line.
            "exec 3>&2 2>/dev/null",
            f'(trap -- {at_the_end} EXIT; {known}\\builtin eval -- "$BASH_EXECUTION_STRING"; {after}) 2>&3 3>&-',
            f'set -- "$?"; builtin printf "%s\\n" "$1" >>{end}; exit "$1"',
        )
    )


def _gate(begin: Begin, builtin: str = "") -> tuple[str, ...]:
    return (
        # The end of the file instead of a line: the daemon is gone, and the command must not run.
        "IFS= read -r REPLY || exit 125",
        "unset REPLY",
        "exec </dev/null",
        f"umask {begin.umask:03o}",
        f"{builtin}cd -- {shlex.quote(begin.folder)} || exit 125",
        # The daemon's own folder, where `cd -` would go to.
        "unset OLDPWD",
    )


@cache
def bash_path() -> str:
    return shutil.which("bash") or "/bin/bash"


# PowerShell: a plain shell waits at the gate for it, and writes its exit code down.

_POWERSHELL = """
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
if ($null -ne $PSStyle) { $PSStyle.OutputRendering = 'PlainText' }
$global:LASTEXITCODE = 0
$global:OstlerWorked = $false
try {
    $OstlerText = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String('@command@'))
    . ([ScriptBlock]::Create($OstlerText + "`n" + '$global:OstlerWorked = $?'))
} catch {
    [Console]::Error.WriteLine(($_ | Out-String).Trim())
    if ($_.Exception -is [Management.Automation.CommandNotFoundException]) { $global:LASTEXITCODE = 127 }
} finally {
    [IO.File]::WriteAllText('@end@', (Get-Location -PSProvider FileSystem).ProviderPath + "`n")
}
if ($global:OstlerWorked) { exit 0 }
if ($global:LASTEXITCODE) { exit $global:LASTEXITCODE }
exit 1
"""


def powershell(begin: Begin) -> list[str]:
    end = shlex.quote(begin.end_path)
    program = shlex.quote(pwsh_path() or "pwsh")
    options = "-NoLogo -NoProfile -NonInteractive -OutputFormat Text -EncodedCommand"
    script = "; ".join(
        (
            *_gate(begin),
            # It says nothing itself, not even that what it waited for was ended.
            "exec 3>&2 2>/dev/null",
            f'{program} {options} "$1" 2>&3 3>&-',
            f'set -- "$?"; printf "%s\\n" "$1" >>{end}; exit "$1"',
        )
    )
    return ["/bin/sh", "-c", script, "sh", encoded(powershell_script(begin))]


def powershell_script(begin: Begin) -> str:
    command = base64.b64encode(begin.command.encode()).decode()
    return _POWERSHELL.replace("@command@", command).replace("@end@", begin.end_path.replace("'", "''"))


def encoded(script: str) -> str:
    """As `-EncodedCommand` takes it."""
    return base64.b64encode(script.encode("utf-16-le")).decode()


@cache
def pwsh_path() -> str | None:
    return shutil.which("pwsh")
