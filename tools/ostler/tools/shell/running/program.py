"""Builds the command lines of the shells that run commands.

A shell waits for a line on its standard input (the gate) before it begins, and writes its last folder and its exit code
into a file at its end.
"""

import base64
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class ShellStart:
    """What a shell is started with."""

    command: str
    folder: str
    end_path: str
    """The file for the folder in which it ends, and for its exit code in the last line."""
    umask: int
    definitions: str | None = None
    """A file with the person's functions and aliases; null where the command is to run without them."""
    locked: bool = False
    """Nothing in the command may change what its later words mean: its text is what allowed it."""
    literal: bool = False
    """It only reads: the shell expands no pattern and no brace in it, since what is run is what was judged."""
    programs: tuple[tuple[str, str], ...] = ()
    """Programs by name, each with the path at which it was found: the shell looks for them nowhere else."""


ShellProgram = Callable[[ShellStart], list[str]]
"""The command line. Looks for the program, and so blocks."""


def build_bash_arguments(start: ShellStart) -> list[str]:
    return [find_bash(), "--noprofile", "--norc", "-c", build_bash_script(start), "bash", start.command]


def build_bash_script(start: ShellStart) -> str:
    """Waits at the gate, runs its argument in a subshell, and writes down how that ended.

    The outer shell stays to write the exit code: a daemon that starts later cannot wait for it.
    """
    end = shlex.quote(start.end_path)
    # It prints nothing, not even under `set -x`.
    at_the_end = shlex.quote(f"{{ builtin pwd -P >|{end}; }} >/dev/null 2>&1")
    known = f". {shlex.quote(start.definitions)} 2>/dev/null; " if start.definitions else ""
    locks = _build_locks(start)
    # Also for a command that has replaced our EXIT trap by its own, unless it leaves with `exit`.
    write_end = f'\\builtin set +vx -- "$?"; \\builtin trap - DEBUG; \\builtin pwd -P >|{end}'
    after = f'{{ {write_end}; }} >/dev/null 2>&1; \\builtin exit "$1"'
    # In one line, so that the shell counts the command's own lines from 1.
    return "; ".join(
        (
            *_build_gate(start, "builtin "),
            # The command sees no arguments, and itself in the variable in which `bash -c` has it.
            "BASH_EXECUTION_STRING=$1; set --",
            # The outer shell prints nothing itself: of a command that dies by a signal it would show all of this line.
            "exec 3>&2 2>/dev/null",
            f'(trap -- {at_the_end} EXIT; {known}{locks}\\builtin eval -- "$BASH_EXECUTION_STRING"; {after}) 2>&3 3>&-',
            f'set -- "$?"; builtin printf "%s\\n" "$1" >>{end}; exit "$1"',
        )
    )


def _build_locks(start: ShellStart) -> str:
    """Before the line begins: pins its programs, and makes the variables read-only that decide what a word means."""
    pins = "".join(f"\\builtin hash -p {shlex.quote(path)} {shlex.quote(name)}; " for name, path in start.programs)
    literal = "\\builtin set -f +B; " if start.literal else ""
    return f"{pins}{literal}" + ("\\builtin readonly PATH IFS BASH_ENV ENV; " if start.locked else "")


def _build_gate(start: ShellStart, builtin: str = "") -> tuple[str, ...]:
    return (
        # End of file instead of a line: the daemon is gone, and the command must not run.
        "IFS= read -r REPLY || exit 125",
        "unset REPLY",
        "exec </dev/null",
        f"umask {start.umask:03o}",
        f"{builtin}cd -- {shlex.quote(start.folder)} || exit 125",
        # The daemon's own folder, where `cd -` would go to.
        "unset OLDPWD",
    )


@cache
def find_bash() -> str:
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


def build_powershell_arguments(start: ShellStart) -> list[str]:
    end = shlex.quote(start.end_path)
    program = shlex.quote(find_pwsh() or "pwsh")
    options = "-NoLogo -NoProfile -NonInteractive -OutputFormat Text -EncodedCommand"
    script = "; ".join(
        (
            *_build_gate(start),
            # It prints nothing itself, not even that the process it waited for was killed.
            "exec 3>&2 2>/dev/null",
            f'{program} {options} "$1" 2>&3 3>&-',
            f'set -- "$?"; printf "%s\\n" "$1" >>{end}; exit "$1"',
        )
    )
    return ["/bin/sh", "-c", script, "sh", encode_script(build_powershell_script(start))]


def build_powershell_script(start: ShellStart) -> str:
    command = base64.b64encode(start.command.encode()).decode()
    return _POWERSHELL.replace("@command@", command).replace("@end@", start.end_path.replace("'", "''"))


def encode_script(script: str) -> str:
    """As `-EncodedCommand` takes it."""
    return base64.b64encode(script.encode("utf-16-le")).decode()


@cache
def find_pwsh() -> str | None:
    return shutil.which("pwsh")
