"""PowerShell: as Bash, where `pwsh` is found."""

import os
import re
from collections.abc import Sequence

from ostler.tools import commands
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import Subject
from ostler.tools.shell import powershell_policy
from ostler.tools.shell.base import ANOTHER, ShellInput, ShellTool, outside_the_sandbox
from ostler.tools.shell.bash_policy import Bound, is_read_at_once, script_digest
from ostler.tools.shell.git_effects import GitChanges, changes_of
from ostler.tools.shell.git_head import Move
from ostler.tools.shell.output.text import meaning
from ostler.tools.shell.powershell_parser import NotPlain, plain_commands
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import program
from ostler.tools.shell.running.program import Begin
from ostler.tools.shell.sleep_detection import seconds_of_sleep
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Check, Failure, Ran

_SCRIPT = re.compile(r"[\w./-]+\.(?:ps1|psm1|psd1|sh|py|js|rb|pl)\b")
_MOVING = frozenset({"cd", "chdir", "sl", "set-location", "push-location", "pushd", "pop-location", "popd"})


class PowerShell(ShellTool):
    """Runs a command of PowerShell's in the session's folder."""

    name = "PowerShell"
    title = "Runs a PowerShell command"
    search_hint = "run execute pwsh cmdlet command terminal script"
    max_command_bytes = 30_000  # encoded it is three times as long, and Linux takes 128 KiB in one argument

    def is_enabled(self, surroundings: Surroundings) -> bool:
        return program.pwsh_path() is not None

    def program(self, begin: Begin) -> list[str]:
        return program.powershell(begin)

    def activity(self, given: ShellInput) -> Activity:
        return powershell_policy.activity_of(given.command) if is_read_at_once(given.command) else "run"

    def long_sleep(self, command: str) -> bool:
        waits = seconds_of_sleep(command)
        return waits is not None and waits[0] >= 2

    def only_sleeps(self, command: str) -> bool:
        waits = seconds_of_sleep(command)
        return waits is not None and waits[1]

    def harmless(self, command: str, output: str = "") -> str | None:
        found = plain_commands(command)
        # What a condition stands before may not have run at all.
        if isinstance(found, NotPlain) or any(each.conditional for each in found):
            return None
        return meaning(found[-1].words[0], 1)

    def is_silent(self, command: str) -> bool:
        found = plain_commands(command)
        return not isinstance(found, NotPlain) and all(each.words[0].lower() in _MOVING for each in found)

    def git(self, command: str, output: str, moves: Sequence[Move]) -> GitChanges | None:
        parts = (inner for part in powershell_policy.reading_of(command).parts for inner in commands.unwrapped(part))
        return changes_of((part.words for part in parts), output, moves)

    def bound(self, command: str, surroundings: Surroundings) -> Bound:
        folder = surroundings.shell_folder
        scripts = {paths.written(os.path.join(folder, name)) for name in _SCRIPT.findall(command)}
        return Bound(folder, tuple(sorted((script, script_digest(script)) for script in scripts)))

    def is_read_only(self, given: ShellInput) -> bool:
        return not given.dangerously_disable_sandbox and powershell_policy.seems_read_only(given.command)

    def is_destructive(self, given: ShellInput) -> bool:
        return powershell_policy.is_destructive(given.command)

    def is_concurrency_safe(self, given: ShellInput) -> bool:
        # As with Bash, what is long waits for its turn. None of the commands that only read changes the folder.
        return is_read_at_once(given.command) and self.is_read_only(given)

    async def subject(self, given: ShellInput, surroundings: Surroundings) -> Subject:
        return await read_in_thread(powershell_policy.subject, given.command, surroundings.shell_folder)

    async def check_permission(self, given: ShellInput, context: ToolContext) -> Check:
        about = await read_in_thread(self.bound, given.command, context.surroundings)
        self.note(context.call_id, about)
        if given.dangerously_disable_sandbox:
            return outside_the_sandbox(f"Run this command: {given.command}")
        return await read_in_thread(powershell_policy.check, given.command, context.surroundings)

    async def run(self, given: ShellInput, context: ToolContext) -> Ran[ShellOutput] | Failure:
        if await self.is_another(given, context):
            return Failure(ANOTHER)
        return await self.carried_out(given, context)
