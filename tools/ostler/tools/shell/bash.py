"""Bash: runs one command, in the foreground or in the background."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace

from ostler.protocol.ids import CallId, SessionId
from ostler.tools import commands
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.fs import cached_io
from ostler.tools.fs.cached_io import WouldBlock
from ostler.tools.permissions.subject import Subject
from ostler.tools.shell.approval_binding import MAY_CHANGE, ApprovalBinding, compute_binding, may_change_what_runs
from ostler.tools.shell.base import CHANGED_SINCE_ALLOWED, ShellInput, ShellTool, build_sandbox_ask
from ostler.tools.shell.bash_policy import (
    Judgement,
    changes_folder,
    classify_activity,
    compute_binding_nowait,
    find_subject,
    find_subject_nowait,
    is_quick_to_parse,
    judge,
    judge_nowait,
    parse_command,
    remember,
    seems_read_only,
)
from ostler.tools.shell.git_effects import GitChanges, find_git_changes
from ostler.tools.shell.git_head import ReflogEntry
from ostler.tools.shell.named_files import digest_script
from ostler.tools.shell.output.text import explain_exit_code, is_silent
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import program
from ostler.tools.shell.running.program import ShellStart
from ostler.tools.shell.sed_command import parse_sed_command
from ostler.tools.shell.sed_edit import PendingSedEdits, WriteOutcome
from ostler.tools.shell.sleep_detection import begins_with_sleep, only_sleeps
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Allow, AskFirst, Check, Failure, Refuse, ToolResult


class Bash(ShellTool):
    """Runs a command in the session's folder."""

    name = "Bash"
    in_minimal = True
    title = "Runs a shell command"
    given_to_agents = "all"
    search_hint = "run execute shell command terminal program script"
    max_command_bytes = 100_000  # Linux takes 128 KiB in one argument

    def __init__(self) -> None:
        super().__init__()
        self._edits = PendingSedEdits()
        self._literal: dict[CallId, str] = {}
        """The text that runs in place of a command that only reads, from its permission until it runs."""
        self._expanded: dict[tuple[SessionId, str, str], Subject] = {}
        """What commands with patterns were judged as, so that rules are matched with the same names."""

    def build_arguments(self, start: ShellStart) -> list[str]:
        return program.build_bash_arguments(start)

    def begins_with_sleep(self, command: str) -> bool:
        return begins_with_sleep(command)

    def only_sleeps(self, command: str) -> bool:
        return only_sleeps(command)

    def explain_exit_code(self, command: str, output: str = "") -> str | None:
        return explain_exit_code(command, 1, output)

    def is_silent(self, command: str) -> bool:
        return is_silent(parse_command(command))

    def find_git_changes(self, command: str, output: str, entries: Sequence[ReflogEntry]) -> GitChanges | None:
        return find_git_changes(command, output, entries)

    def compute_binding(self, command: str, session: SessionView) -> ApprovalBinding:
        return _bind(command, session)

    def compute_shown_binding(self, given: ShellInput, session: SessionView) -> ApprovalBinding:
        binding = super().compute_shown_binding(given, session)
        sed = parse_sed_command(given.command) if _may_be_edit(given) else None
        if sed is None:
            return binding
        # Of an edit the diff is shown, which depends on the content of the files.
        files = [os.path.join(session.shell_folder, name) for name in sed.files]
        return replace(binding, scripts=(*binding.scripts, *((file, digest_script(file)) for file in files)))

    def is_read_only(self, given: ShellInput) -> bool:
        return not given.dangerously_disable_sandbox and seems_read_only(given.command)

    def is_destructive(self, given: ShellInput) -> bool:
        return commands.is_destructive(parse_command(given.command))

    def is_concurrency_safe(self, given: ShellInput) -> bool:
        # Called on the event loop, before the command has been parsed: a long one runs alone instead.
        if not is_quick_to_parse(given.command):
            return False
        # The next command starts in the folder where this one ended.
        return self.is_read_only(given) and not changes_folder(given.command)

    def writes_files(self, given: ShellInput) -> bool:
        return _may_be_edit(given)

    def activity(self, given: ShellInput) -> Activity:
        if not is_quick_to_parse(given.command):
            return "run"
        return "edit" if _may_be_edit(given) else classify_activity(given.command)

    async def find_subject(self, given: ShellInput, session: SessionView) -> Subject:
        edit = _may_be_edit(given)
        if (judged := self._expanded.get((session.session_id, session.shell_folder, given.command))) is not None:
            return judged
        with contextlib.suppress(WouldBlock):
            found = None if edit else find_subject_nowait(given.command, session.shell_folder, cached_io.resolve_path)
            if found is not None:
                return found
        return await read_in_thread(find_subject, given.command, session.shell_folder, edit)

    async def check_permission(self, given: ShellInput, context: ToolContext) -> Check:
        found: tuple[Judgement, ApprovalBinding] | None = None
        with contextlib.suppress(WouldBlock):
            found = _judge_and_bind_nowait(given.command, context.session)
        if found is None:
            found = await read_in_thread(_judge_and_bind, given.command, context.session)
        judged, binding = found
        self.remember_binding(context.call_id, binding)
        self._remember_expansion(given.command, judged, context)
        check = judged.check
        if given.dangerously_disable_sandbox:
            return check if isinstance(check, Refuse) else build_sandbox_ask(f"Run this command: {given.command}")
        if _may_be_edit(given) and not (isinstance(check, AskFirst) and check.safety):
            return await self._edits.check_permission(given.command, context) or check
        return check

    def _remember_expansion(self, command: str, judged: Judgement, context: ToolContext) -> None:
        key = (context.session.session_id, context.session.shell_folder, command)
        self._expanded.pop(key, None)
        if (literal := judged.literal_command) is None:
            return
        remember(self._literal, context.call_id, literal)
        if judged.read_only.expansion is not None:
            remember(self._expanded, key, judged.subject)

    async def run(self, given: ShellInput, context: ToolContext) -> ToolResult[ShellOutput] | Failure:
        literal = self._literal.pop(context.call_id, None)
        if await self.has_changed_since_approval(given, context):
            return Failure(CHANGED_SINCE_ALLOWED)
        if _may_be_edit(given):
            began = time.monotonic()
            written = await self._edits.write_edits(given.command, context)
            if isinstance(written, Failure):
                return written
            if written is not None:
                return _build_edit_result(written, round((time.monotonic() - began) * 1000))
        if context.only_reads and literal is not None:
            return await self.execute_command(given, context, expanded=literal)
        if not context.allowed_by_check:
            return await self.execute_command(given, context)
        # Looked at once more: what an edit would do, and what a pattern finds, depends on the files that are there.
        judged = await read_in_thread(judge, given.command, context.session)
        if not isinstance(judged.check, Allow) or (context.only_reads and not judged.read_only.ok):
            return Failure(CHANGED_SINCE_ALLOWED)
        return await self.execute_command(
            given,
            context,
            only_edits=judged.only_edits,
            network_reads=judged.network_reads,
            expanded=judged.literal_command,
        )


def _may_be_edit(given: ShellInput) -> bool:
    """Judged by its text; whether it is one depends on the files."""
    as_it_is = given.run_in_background or given.dangerously_disable_sandbox
    return not as_it_is and parse_sed_command(given.command) is not None


def _build_edit_result(written: WriteOutcome, took: int) -> ToolResult[ShellOutput]:
    failure = written.failure
    output = ShellOutput(
        stdout="",
        stderr=failure.message if failure else "",
        exit_code=1 if failure else 0,
        duration_ms=took,
        edits=written.files,
        no_output_expected=failure is None,
    )
    return ToolResult(output, is_error=failure is not None, changes=written.changes)


def _judge_and_bind_nowait(command: str, session: SessionView) -> tuple[Judgement, ApprovalBinding] | None:
    """For most commands, which name no file: a thread would take longer. Raises WouldWait."""
    judged = judge_nowait(command, session, cached_io.resolve_path)
    binding = compute_binding_nowait(command, session) if judged is not None else None
    return (_add_warning(judged, binding), binding) if judged is not None and binding is not None else None


def _judge_and_bind(command: str, session: SessionView) -> tuple[Judgement, ApprovalBinding]:
    binding = _bind(command, session)
    return _add_warning(judge(command, session), binding), binding


def _bind(command: str, session: SessionView) -> ApprovalBinding:
    # What a simple edit changes is data, of which the diff was shown: it is compared when it is written.
    if parse_sed_command(command) is not None:
        return ApprovalBinding(session.shell_folder, ())
    return compute_binding(command, session)


def _add_warning(judged: Judgement, binding: ApprovalBinding) -> Judgement:
    """The ask says where an approval cannot be bound to what runs."""
    check = judged.check
    bound = binding.complete and not may_change_what_runs(judged.subject.parsed)
    if bound or not isinstance(check, AskFirst):
        return judged
    return replace(judged, check=replace(check, reason=f"{check.reason} {MAY_CHANGE}".strip()))
