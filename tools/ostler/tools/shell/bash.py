"""Bash: one command, in front of its call or behind it."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace

from ostler.tools import commands
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.fs import cached_io
from ostler.tools.fs.cached_io import WouldWait
from ostler.tools.permissions.subject import Subject
from ostler.tools.shell.base import ANOTHER, ShellInput, ShellTool, outside_the_sandbox
from ostler.tools.shell.bash_policy import (
    Bound,
    Judged,
    activity_of,
    bound,
    bound_at_once,
    changes_folder,
    is_read_at_once,
    judge,
    judge_at_once,
    reading,
    script_digest,
    seems_read_only,
    subject,
    subject_at_once,
)
from ostler.tools.shell.git_effects import GitChanges, git_changes
from ostler.tools.shell.git_head import Move
from ostler.tools.shell.output.text import is_silent, meaning
from ostler.tools.shell.result import ShellOutput
from ostler.tools.shell.running import program
from ostler.tools.shell.running.program import Begin
from ostler.tools.shell.sed_command import sed_command
from ostler.tools.shell.sed_edit import SedEdits, Written
from ostler.tools.shell.sleep_detection import long_sleep, only_sleeps
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, AskFirst, Check, Failure, Ran, Refuse


class Bash(ShellTool):
    """Runs a command in the session's folder."""

    name = "Bash"
    title = "Runs a shell command"
    search_hint = "run execute shell command terminal program script"
    max_command_bytes = 100_000  # Linux takes 128 KiB in one argument

    def __init__(self) -> None:
        super().__init__()
        self._edits = SedEdits()

    def program(self, begin: Begin) -> list[str]:
        return program.bash(begin)

    def long_sleep(self, command: str) -> bool:
        return long_sleep(command)

    def only_sleeps(self, command: str) -> bool:
        return only_sleeps(command)

    def harmless(self, command: str, output: str = "") -> str | None:
        return meaning(command, 1, output)

    def is_silent(self, command: str) -> bool:
        return is_silent(reading(command))

    def git(self, command: str, output: str, moves: Sequence[Move]) -> GitChanges | None:
        return git_changes(command, output, moves)

    def bound(self, command: str, surroundings: Surroundings) -> Bound:
        return bound(command, surroundings)

    def shown(self, given: ShellInput, surroundings: Surroundings) -> Bound:
        about = super().shown(given, surroundings)
        sed = sed_command(given.command) if _may_be_edit(given) else None
        if sed is None:
            return about
        # Of an edit its diff is shown, which is about the files as they are.
        files = [os.path.join(surroundings.shell_folder, name) for name in sed.files]
        return replace(about, scripts=(*about.scripts, *((file, script_digest(file)) for file in files)))

    def is_read_only(self, given: ShellInput) -> bool:
        return not given.dangerously_disable_sandbox and seems_read_only(given.command)

    def is_destructive(self, given: ShellInput) -> bool:
        return commands.is_destructive(reading(given.command))

    def is_concurrency_safe(self, given: ShellInput) -> bool:
        # Asked on the event loop, before anybody has looked at the command: a long one waits for its turn instead.
        if not is_read_at_once(given.command):
            return False
        # The next command starts where this one went.
        return self.is_read_only(given) and not changes_folder(given.command)

    def writes_files(self, given: ShellInput) -> bool:
        return _may_be_edit(given)

    def activity(self, given: ShellInput) -> Activity:
        if not is_read_at_once(given.command):
            return "run"
        return "edit" if _may_be_edit(given) else activity_of(given.command)

    async def subject(self, given: ShellInput, surroundings: Surroundings) -> Subject:
        edit = _may_be_edit(given)
        with contextlib.suppress(WouldWait):
            found = None if edit else subject_at_once(given.command, surroundings.shell_folder, cached_io.real)
            if found is not None:
                return found
        return await read_in_thread(subject, given.command, surroundings.shell_folder, edit)

    async def check_permission(self, given: ShellInput, context: ToolContext) -> Check:
        found: tuple[Judged, Bound] | None = None
        with contextlib.suppress(WouldWait):
            found = _judged_at_once(given.command, context.surroundings)
        if found is None:
            found = await read_in_thread(_judged_and_bound, given.command, context.surroundings)
        judged, about = found
        self.note(context.call_id, about)
        check = judged.check
        if given.dangerously_disable_sandbox:
            return check if isinstance(check, Refuse) else outside_the_sandbox(f"Run this command: {given.command}")
        if _may_be_edit(given) and not (isinstance(check, AskFirst) and check.safety):
            return await self._edits.permission(given.command, context) or check
        return check

    async def run(self, given: ShellInput, context: ToolContext) -> Ran[ShellOutput] | Failure:
        if await self.is_another(given, context):
            return Failure(ANOTHER)
        if _may_be_edit(given):
            began = time.monotonic()
            written = await self._edits.written(given.command, context)
            if isinstance(written, Failure):
                return written
            if written is not None:
                return _edited(written, round((time.monotonic() - began) * 1000))
        return await self.carried_out(given, context)


def _may_be_edit(given: ShellInput) -> bool:
    """By its words; whether it is one, the files tell."""
    as_it_is = given.run_in_background or given.dangerously_disable_sandbox
    return not as_it_is and sed_command(given.command) is not None


def _edited(written: Written, took: int) -> Ran[ShellOutput]:
    failure = written.failure
    output = ShellOutput(
        stdout="",
        stderr=failure.message if failure else "",
        exit_code=1 if failure else 0,
        duration_ms=took,
        edits=written.files,
        no_output_expected=failure is None,
    )
    return Ran(output, is_error=failure is not None, changes=written.changes)


def _judged_at_once(command: str, surroundings: Surroundings) -> tuple[Judged, Bound] | None:
    """For most commands, which name no file: a trip to a thread would take longer. Raises WouldWait."""
    judged = judge_at_once(command, surroundings, cached_io.real)
    about = bound_at_once(command, surroundings) if judged is not None else None
    return (judged, about) if judged is not None and about is not None else None


def _judged_and_bound(command: str, surroundings: Surroundings) -> tuple[Judged, Bound]:
    return judge(command, surroundings), bound(command, surroundings)
