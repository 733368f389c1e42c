"""PowerShell: runs one command, as Bash does, where `pwsh` is installed."""

import os
from collections.abc import Sequence

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import Subject
from ostler.tools.shell import powershell_policy
from ostler.tools.shell.approval_binding import ApprovalBinding
from ostler.tools.shell.base import CHANGED_SINCE_ALLOWED, ShellInput, ShellTool, build_sandbox_ask
from ostler.tools.shell.bash_policy import is_quick_to_parse
from ostler.tools.shell.git_effects import GitChanges, collect_changes
from ostler.tools.shell.git_head import ReflogEntry
from ostler.tools.shell.named_files import digest_script
from ostler.tools.shell.output.text import explain_exit_code
from ostler.tools.shell.powershell_parser import UnsupportedSyntax, parse_powershell
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import program
from ostler.tools.shell.running.program import ShellStart
from ostler.tools.shell.sleep_detection import parse_powershell_sleep
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Check, Failure, ToolResult

_SCRIPT = compile_later(r"[\w./-]+\.(?:ps1|psm1|psd1|sh|py|js|rb|pl)\b")
_FOLDER_COMMANDS = frozenset({"cd", "chdir", "sl", "set-location", "push-location", "pushd", "pop-location", "popd"})


class PowerShell(ShellTool):
    """Runs a command of PowerShell's in the session's folder."""

    name = "PowerShell"
    title = "Runs a PowerShell command"
    given_to_agents = "all"
    search_hint = "run execute pwsh cmdlet command terminal script"
    max_command_bytes = 30_000  # encoded it is three times as long, and Linux takes 128 KiB in one argument

    def is_enabled(self, session: SessionView) -> bool:
        return program.find_pwsh() is not None

    def build_arguments(self, start: ShellStart) -> list[str]:
        return program.build_powershell_arguments(start)

    def activity(self, given: ShellInput) -> Activity:
        return powershell_policy.classify_activity(given.command) if is_quick_to_parse(given.command) else "run"

    def begins_with_sleep(self, command: str) -> bool:
        waits = parse_powershell_sleep(command)
        return waits is not None and waits[0] >= 2

    def only_sleeps(self, command: str) -> bool:
        waits = parse_powershell_sleep(command)
        return waits is not None and waits[1]

    def explain_exit_code(self, command: str, output: str = "") -> str | None:
        found = parse_powershell(command)
        # A conditional command may not have run at all.
        if isinstance(found, UnsupportedSyntax) or any(each.conditional for each in found):
            return None
        return explain_exit_code(found[-1].words[0], 1)

    def is_silent(self, command: str) -> bool:
        found = parse_powershell(command)
        return not isinstance(found, UnsupportedSyntax) and all(
            each.words[0].lower() in _FOLDER_COMMANDS for each in found
        )

    def find_git_changes(self, command: str, output: str, entries: Sequence[ReflogEntry]) -> GitChanges | None:
        parts = (inner for part in powershell_policy.parse_for_rules(command).parts for inner in commands.unwrap(part))
        return collect_changes((part.words for part in parts), output, entries)

    def compute_binding(self, command: str, session: SessionView) -> ApprovalBinding:
        folder = session.shell_folder
        scripts = {paths.normalize_path(os.path.join(folder, name)) for name in _SCRIPT.findall(command)}
        return ApprovalBinding(folder, tuple(sorted((script, digest_script(script)) for script in scripts)))

    def is_read_only(self, given: ShellInput) -> bool:
        return not given.dangerously_disable_sandbox and powershell_policy.seems_read_only(given.command)

    def is_destructive(self, given: ShellInput) -> bool:
        return powershell_policy.is_destructive(given.command)

    def is_concurrency_safe(self, given: ShellInput) -> bool:
        # As with Bash, a long command runs alone. None of the commands that only read changes the folder.
        return is_quick_to_parse(given.command) and self.is_read_only(given)

    async def find_subject(self, given: ShellInput, session: SessionView) -> Subject:
        return await read_in_thread(powershell_policy.find_subject, given.command, session.shell_folder)

    async def check_permission(self, given: ShellInput, context: ToolContext) -> Check:
        binding = await read_in_thread(self.compute_binding, given.command, context.session)
        self.remember_binding(context.call_id, binding)
        if given.dangerously_disable_sandbox:
            return build_sandbox_ask(f"Run this command: {given.command}")
        return await read_in_thread(powershell_policy.check, given.command, context.session)

    async def run(self, given: ShellInput, context: ToolContext) -> ToolResult[ShellOutput] | Failure:
        if await self.has_changed_since_approval(given, context):
            return Failure(CHANGED_SINCE_ALLOWED)
        return await self.execute_command(given, context)
