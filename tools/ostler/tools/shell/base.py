"""The base class of Bash and PowerShell: their input, its limits, and how a command runs and gets its result."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from pydantic import AliasChoices, Field

from ostler.protocol.ids import CallId
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.description import render_description
from ostler.tools.permissions.subject import Subject
from ostler.tools.sandbox import NotProtectable
from ostler.tools.shell.approval_binding import ApprovalBinding
from ostler.tools.shell.bash_policy import is_longer, is_quick_to_parse, parse_ahead, remember
from ostler.tools.shell.git_effects import GitChanges
from ostler.tools.shell.git_head import ReflogEntry, ReflogSnapshot, may_move_head, read_reflog_since, snapshot_reflogs
from ostler.tools.shell.result import (
    ShellOutput,
    add_remarks,
    build_backgrounded_output,
    build_finished_output,
    choose_next_folder,
    render_output,
)
from ostler.tools.shell.running.command import BackgroundedCommand, FinishedCommand, run_command
from ostler.tools.shell.running.launch import CommandSpec, NoFolder
from ostler.tools.shell.running.program import ShellStart
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    AskFirst,
    Block,
    Change,
    Failure,
    FolderChanged,
    GitChanged,
    Tool,
    ToolInput,
    ToolResult,
)
from ostler.tools.traits import PermissionTraits, ShellTraits

_DEFAULT_TIMEOUT_MS: Final = 120_000
_MAX_TIMEOUT_MS: Final = 600_000
CHANGED_SINCE_ALLOWED: Final = (
    "The folder or a file of this command is another one than when it was allowed. Ask again."
)
_WAITS: Final = (
    "A command that begins by waiting only wastes time.<!-- needs: Sleep --> To wait, use Sleep.<!-- / -->"
    "<!-- needs: TaskOutput --> For a task, use TaskOutput.<!-- / -->"
    "<!-- needs: Monitor --> For something to happen, use Monitor, or a loop that looks for it,<!-- / -->"
    "<!-- lacks: Monitor --> For something to happen, use a loop that looks for it,<!-- / -->"
    " as in `until curl -s localhost:8000; do sleep 1; done`."
)
_WAITS_IN_BACKGROUND: Final = (
    "A command that does nothing but sleep is never sent to the background, where nobody would wait for it."
    "<!-- needs: Sleep --> To wait, use Sleep.<!-- / -->"
)
_TOO_LONG: Final = (
    "The command is longer than {} bytes: write it to a file<!-- needs: Write --> with Write<!-- / -->, and run that."
)
_FILE_TOOLS: Final = ("Read", "Glob", "Grep", "Edit", "Write")


class ShellInput(ToolInput):
    """A command."""

    command: str = Field(description="The command, as the shell takes it.")
    timeout: int | None = Field(None, description="Milliseconds after which it is ended.")
    description: str | None = Field(None, description="What it does, in five to ten words.")
    run_in_background: bool = Field(
        False, description="Do not wait: it goes on as a task, whose output TaskOutput gives."
    )
    dangerously_disable_sandbox: bool = Field(
        False,
        validation_alias=AliasChoices("dangerouslyDisableSandbox", "dangerously_disable_sandbox"),
        serialization_alias="dangerouslyDisableSandbox",
        description="Run it outside the sandbox, where it cannot work inside. A person is asked, whatever is allowed.",
    )


class ShellTool(Tool[ShellInput, ShellOutput]):
    """Runs a command in the session's folder."""

    Input = ShellInput
    Output = ShellOutput
    max_result_chars = 30_000
    shows_both_ends = True
    max_command_bytes: ClassVar[int]

    def __init__(self) -> None:
        self._schemas: dict[tuple[bool, bool], dict[str, Any]] = {}
        self._bindings: dict[CallId, ApprovalBinding] = {}
        self.permissions = PermissionTraits(text="command", subject=self.find_subject)
        self.shell = ShellTraits(
            is_shell=True,
            runs_commands=True,
            waits_at_gate=True,
            only_waits=self._only_waits,
            writes_files=self.writes_files,
            bound_to=self._compute_bound_digest,
            stopped=_build_stopped_output,
        )

    # What differs between the shells.

    @abstractmethod
    def build_arguments(self, start: ShellStart) -> list[str]:
        """The command line that runs it. Blocks."""

    @abstractmethod
    def begins_with_sleep(self, command: str) -> bool:
        """Whether the first thing it does is to wait for two seconds or more. Parses it, which may take long."""

    @abstractmethod
    def only_sleeps(self, command: str) -> bool:
        """Whether it does nothing but wait, so that it need not go on in the background. Parses it, as above."""

    @abstractmethod
    def explain_exit_code(self, command: str, output: str = "") -> str | None:
        """What exit code 1 means where it is no failure, for a command that printed this."""

    @abstractmethod
    def is_silent(self, command: str) -> bool:
        """Whether it prints nothing when all goes well."""

    @abstractmethod
    def find_git_changes(self, command: str, output: str, entries: Sequence[ReflogEntry]) -> GitChanges | None:
        """What it did to a repository, where it succeeded; `entries` are the new ones of its reflog."""

    @abstractmethod
    def compute_binding(self, command: str, session: SessionView) -> ApprovalBinding:
        """What an approval of it is bound to beside its text: the folder and the scripts. Blocks."""

    @abstractmethod
    async def find_subject(self, given: ShellInput, session: SessionView) -> Subject:
        """What rules are compared with: the commands, and the files that they visibly access."""

    def writes_files(self, given: ShellInput) -> bool:
        """Whether this call may write files itself, without a command, under Edit's rules."""
        return False

    # What is the same for all shells.

    def remember_binding(self, call_id: CallId, binding: ApprovalBinding) -> None:
        """Remembered until the call runs, so that what was approved is what runs."""
        remember(self._bindings, call_id, binding)

    def compute_shown_binding(self, given: ShellInput, session: SessionView) -> ApprovalBinding:
        """What a person is shown of it beside its text. Blocks."""
        return self.compute_binding(given.command, session)

    async def _compute_bound_digest(self, given: ShellInput, session: SessionView) -> str | None:
        return (await read_in_thread(self.compute_shown_binding, given, session)).digest

    async def has_changed_since_approval(self, given: ShellInput, context: ToolContext) -> bool:
        """Whether the folder or a script is another one than when it was approved."""
        approved = self._bindings.pop(context.call_id, None)
        if approved is None:
            return False
        if not approved.looked:
            return approved.folder != context.session.shell_folder
        return approved != await read_in_thread(self.compute_binding, given.command, context.session)

    def description(self, session: SessionView) -> str:
        default, maximum = read_timeouts()
        files = [name for name in _FILE_TOOLS if session.has(name)]
        facts = {
            # Where it goes on as a task, it is not ended after that time.
            "{default}": "" if session.background else f"{default} if not given, ",
            "{maximum}": str(maximum),
            "{budget}": str(_compute_foreground_ms(session)),
            "{files}": " and ".join(part for part in (", ".join(files[:-1]), *files[-1:]) if part),
        }
        # Lines about what is not available are left out.
        absent = [*(["run_in_background"] if not session.background else []), *(["{files}"] if not files else [])]
        lines = super().description(session).split("\n")
        words = "\n".join(line for line in lines if not any(name in line for name in absent))
        for name, fact in facts.items():
            words = words.replace(name, fact)
        return words

    def input_schema(self, session: SessionView) -> dict[str, Any]:
        key = (session.background, _may_leave_sandbox(session))
        if key not in self._schemas:
            absent = {
                name
                for name, there in zip(("run_in_background", "dangerouslyDisableSandbox"), key, strict=True)
                if not there
            }
            kept = {name: each for name, each in self._schema["properties"].items() if name not in absent}
            self._schemas[key] = {**self._schema, "properties": kept}
        return self._schemas[key]

    def activity(self, given: ShellInput) -> Activity:
        return "run"

    def _only_waits(self, given: ShellInput) -> bool:
        # Called on the event loop: a command that takes long to parse does more than wait.
        return is_quick_to_parse(given.command) and self.only_sleeps(given.command)

    def summary(self, given: ShellInput) -> str:
        # The command itself and never the model's description of it: a person decides by this line.
        return one_line(given.command, 200)

    def classifier_text(self, given: ShellInput) -> str:
        return given.command

    async def validate(self, given: ShellInput, context: ToolContext) -> Failure | None:
        if "\0" in given.command:
            return Failure("The command holds a NUL byte.")
        if not given.command.strip():
            return Failure("The command is empty.")
        if is_longer(given.command, self.max_command_bytes):
            return Failure(render_description(_TOO_LONG, context.session).format(self.max_command_bytes))
        await parse_ahead(given.command)
        if await _check_command(self.begins_with_sleep, given.command):
            return Failure(render_description(_WAITS, context.session))
        if given.run_in_background and await _check_command(self.only_sleeps, given.command):
            return Failure(render_description(_WAITS_IN_BACKGROUND, context.session))
        if given.run_in_background and not (context.services.tasks.enabled and context.session.background):
            return Failure("run_in_background is off here: run it in the foreground, with a timeout.")
        if given.dangerously_disable_sandbox and not _may_leave_sandbox(context.session):
            return Failure("dangerouslyDisableSandbox is off here: commands run as the person has set it.")
        maximum = read_timeouts()[1]
        if given.timeout is not None and not 1 <= given.timeout <= maximum:
            return Failure(f"timeout is {given.timeout}, but must be from 1 to {maximum} milliseconds.")
        return None

    async def execute_command(
        self,
        given: ShellInput,
        context: ToolContext,
        *,
        only_edits: bool = False,
        network_reads: bool = False,
        expanded: str | None = None,
    ) -> ToolResult[ShellOutput] | Failure:
        """Runs a command that has been allowed, and returns its result; `expanded` is what runs in its place."""
        # A limit that the model gave is waited out; without one, what takes long goes on in the background, except for
        # a mere wait, which would only be another way to waste the time.
        may_go_on = (
            given.timeout is None
            and context.services.tasks.enabled
            and not await _check_command(self.only_sleeps, given.command)
        )
        timeout = given.timeout or (_compute_foreground_ms(context.session) if may_go_on else read_timeouts()[0])
        spec = CommandSpec(
            given.command,
            timeout / 1000,
            given.description,
            in_background=given.run_in_background,
            may_go_on=may_go_on,
            program=self.build_arguments,
            outside_sandbox=given.dangerously_disable_sandbox,
            expanded=expanded,
            only_edits=only_edits,
            network_reads=network_reads,
        )
        before: ReflogSnapshot | None = None
        if may_move_head(given.command):
            before = await read_in_thread(snapshot_reflogs, given.command, context.session.shell_folder)
        try:
            finished = await run_command(spec, context)
        except (NoFolder, NotProtectable) as error:
            return Failure(str(error))
        except OSError as error:
            return Failure(f"The command could not be started: {error.strerror}.")
        if isinstance(finished, BackgroundedCommand):
            return ToolResult(build_backgrounded_output(finished, spec))
        entries: list[ReflogEntry] = []
        if before is not None and finished.exit_code == 0:
            places = (finished.started_in, finished.ended_in)
            entries = await read_in_thread(read_reflog_since, given.command, places, before)
        return await self._build_result(given, finished, entries, timeout, context.session)

    async def _build_result(
        self,
        given: ShellInput,
        finished: FinishedCommand,
        entries: Sequence[ReflogEntry],
        limit_ms: int,
        session: SessionView,
    ) -> ToolResult[ShellOutput]:
        harmless = self.explain_exit_code(given.command, finished.output) if finished.exit_code == 1 else None
        output, is_error = build_finished_output(finished, limit_ms, harmless)
        changes: list[Change] = []
        facts: dict[str, Any] = {"no_output_expected": not finished.output and self.is_silent(given.command)}
        if (
            finished.exit_code == 0
            and (done := self.find_git_changes(given.command, finished.output, entries)) is not None
        ):
            facts["git"] = done
            changes.append(GitChanged(done.model_dump(exclude_none=True)))
        output = output.model_copy(update=facts)
        if finished.ended_in != session.shell_folder:
            place, remarks = await read_in_thread(choose_next_folder, finished, session)
            output = add_remarks(output, remarks)
            changes += [FolderChanged(place)] if place != session.shell_folder else []
        return ToolResult(output, is_error=is_error, changes=changes)

    def render(self, output: ShellOutput) -> list[Block]:
        return render_output(output)


def _build_stopped_output(printed: str, duration_ms: int) -> ShellOutput:
    return ShellOutput(stdout=printed, exit_code=None, interrupted=True, duration_ms=duration_ms)


async def _check_command(check: Callable[[str], bool], command: str) -> bool:
    return check(command) if is_quick_to_parse(command) else await read_in_thread(check, command)


def build_sandbox_ask(message: str) -> AskFirst:
    """The ask for a command that the model wants to run outside the sandbox."""
    return AskFirst(message, reason="The model wants it to run outside the sandbox.", safety=True)


def _may_leave_sandbox(session: SessionView) -> bool:
    return session.config.sandbox is not None and session.config.sandbox.may_be_left


def _compute_foreground_ms(session: SessionView) -> int:
    """How long a command that may go on in the background is waited for, in milliseconds."""
    default = read_timeouts()[0]
    return default if session.assistant is None else min(default, session.assistant.blocking_ms)


def read_timeouts() -> tuple[int, int]:
    """The default and the maximum, which is never below it."""
    default = _read_milliseconds("BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_TIMEOUT_MS)
    return default, max(default, _read_milliseconds("BASH_MAX_TIMEOUT_MS", _MAX_TIMEOUT_MS))


def _read_milliseconds(name: str, default: int) -> int:
    given = os.environ.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 12 and int(given) > 0 else default
