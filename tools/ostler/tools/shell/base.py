"""What Bash and PowerShell have in common: their input, its limits, and the way of a command to its result."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from pydantic import AliasChoices, Field

from ostler.protocol.ids import CallId
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.description import fitting
from ostler.tools.sandbox import NotProtectable
from ostler.tools.shell.bash_policy import Bound, is_longer, is_read_at_once, read_ahead
from ostler.tools.shell.git_effects import GitChanges
from ostler.tools.shell.git_head import Journals, Move, journals_before, may_move, moves_since
from ostler.tools.shell.result import ShellOutput, gone_on, judged, next_folder, rendered, with_remarks
from ostler.tools.shell.running.command import Backgrounded, Finished, run_command
from ostler.tools.shell.running.launch import NoFolder, Order
from ostler.tools.shell.running.program import Begin
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
    Ran,
    Tool,
    ToolInput,
)

_DEFAULT_TIMEOUT_MS: Final = 120_000
_MAX_TIMEOUT_MS: Final = 600_000
_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""
ANOTHER: Final = "The folder or a script of this command is another one than when it was allowed. Ask again."
_WAITS: Final = (
    "A command that begins by waiting only wastes time.<!-- needs: Sleep --> To wait, use Sleep.<!-- / -->"
    "<!-- needs: TaskOutput --> For a task, use TaskOutput.<!-- / -->"
    "<!-- needs: Monitor --> For something to happen, use Monitor, or a loop that looks for it,<!-- / -->"
    "<!-- lacks: Monitor --> For something to happen, use a loop that looks for it,<!-- / -->"
    " as in `until curl -s localhost:8000; do sleep 1; done`."
)
_WAITS_BEHIND: Final = (
    "A command that does nothing but sleep is never sent to the background, where nobody would wait for it."
    "<!-- needs: Sleep --> To wait, use Sleep.<!-- / -->"
)
_TOO_LONG: Final = (
    "The command is longer than {} bytes: write it to a file<!-- needs: Write --> with Write<!-- / -->, and run that."
)
_FOR_FILES: Final = ("Read", "Glob", "Grep", "Edit", "Write")


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
    is_shell = True
    runs_commands = True
    waits_at_gate = True
    max_command_bytes: ClassVar[int]

    def __init__(self) -> None:
        self._schemas: dict[tuple[bool, bool], dict[str, Any]] = {}
        self._bound: dict[CallId, Bound] = {}

    # What each shell has its own words for.

    @abstractmethod
    def program(self, begin: Begin) -> list[str]:
        """The command line that runs it. Blocks."""

    @abstractmethod
    def long_sleep(self, command: str) -> bool:
        """Whether the first thing it does is to wait for two seconds or more. Reads it, which may take long."""

    @abstractmethod
    def only_sleeps(self, command: str) -> bool:
        """Whether it does nothing else, so that nobody would want it to go on. As above."""

    @abstractmethod
    def harmless(self, command: str, output: str = "") -> str | None:
        """What exit code 1 says where it is no failure, of a command that printed this."""

    @abstractmethod
    def is_silent(self, command: str) -> bool:
        """Whether it says nothing when all goes well."""

    @abstractmethod
    def git(self, command: str, output: str, moves: Sequence[Move]) -> GitChanges | None:
        """What it did to a repository, where it ended well; `moves` are what the repository noted of it."""

    @abstractmethod
    def bound(self, command: str, surroundings: Surroundings) -> Bound:
        """What an approval of it is about, beside its words. Blocks."""

    # What is the same.

    def note(self, call_id: CallId, about: Bound) -> None:
        """What is approved is what runs."""
        self._bound[call_id] = about
        if len(self._bound) > _REMEMBERED:
            self._bound.pop(next(iter(self._bound)))

    def shown(self, given: ShellInput, surroundings: Surroundings) -> Bound:
        """What a person is shown of it, beside its words. Blocks."""
        return self.bound(given.command, surroundings)

    async def bound_to(self, given: ShellInput, surroundings: Surroundings) -> str | None:
        return (await read_in_thread(self.shown, given, surroundings)).digest

    async def is_another(self, given: ShellInput, context: ToolContext) -> bool:
        """Whether it would run in another folder, or another script, than when it was approved."""
        approved = self._bound.pop(context.call_id, None)
        if approved is None:
            return False
        if not approved.scripts:
            return approved.folder != context.surroundings.shell_folder
        return approved != await read_in_thread(self.bound, given.command, context.surroundings)

    def description(self, surroundings: Surroundings) -> str:
        default, maximum = timeouts()
        files = [name for name in _FOR_FILES if surroundings.has(name)]
        facts = {
            # Where it goes on as a task, nothing ends after that time.
            "{default}": "" if surroundings.background else f"{default} if not given, ",
            "{maximum}": str(maximum),
            "{budget}": str(_budget(surroundings)),
            "{files}": " and ".join(part for part in (", ".join(files[:-1]), *files[-1:]) if part),
        }
        # What cannot be done is not explained.
        absent = [*(["run_in_background"] if not surroundings.background else []), *(["{files}"] if not files else [])]
        lines = super().description(surroundings).split("\n")
        words = "\n".join(line for line in lines if not any(name in line for name in absent))
        for name, fact in facts.items():
            words = words.replace(name, fact)
        return words

    def input_schema(self, surroundings: Surroundings) -> dict[str, Any]:
        key = (surroundings.background, _may_leave_sandbox(surroundings))
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

    def only_waits(self, given: ShellInput) -> bool:
        # Asked on the event loop: one that is long to read says more than that.
        return is_read_at_once(given.command) and self.only_sleeps(given.command)

    def permission_matcher(self, given: ShellInput) -> str:
        return given.command

    def summary(self, given: ShellInput) -> str:
        # The command itself and never the model's words about it: a person decides by this line.
        return one_line(given.command, 200)

    def classifier_text(self, given: ShellInput) -> str:
        return given.command

    async def validate(self, given: ShellInput, context: ToolContext) -> Failure | None:
        if "\0" in given.command:
            return Failure("The command holds a NUL byte.")
        if not given.command.strip():
            return Failure("The command is empty.")
        if is_longer(given.command, self.max_command_bytes):
            return Failure(fitting(_TOO_LONG, context.surroundings).format(self.max_command_bytes))
        await read_ahead(given.command)
        if await _asked(self.long_sleep, given.command):
            return Failure(fitting(_WAITS, context.surroundings))
        if given.run_in_background and await _asked(self.only_sleeps, given.command):
            return Failure(fitting(_WAITS_BEHIND, context.surroundings))
        if given.run_in_background and not (context.tasks.enabled and context.surroundings.background):
            return Failure("run_in_background is off here: run it in the foreground, with a timeout.")
        if given.dangerously_disable_sandbox and not _may_leave_sandbox(context.surroundings):
            return Failure("dangerouslyDisableSandbox is off here: commands run as the person has set it.")
        maximum = timeouts()[1]
        if given.timeout is not None and not 1 <= given.timeout <= maximum:
            return Failure(f"timeout is {given.timeout}, but must be from 1 to {maximum} milliseconds.")
        return None

    async def carried_out(self, given: ShellInput, context: ToolContext) -> Ran[ShellOutput] | Failure:
        """Runs what is allowed by now, and says what became of it."""
        # A limit that the model gave is waited out; without one, what takes long goes on in the background, but for a
        # mere wait, which would only be another way to waste the time.
        may_go_on = (
            given.timeout is None and context.tasks.enabled and not await _asked(self.only_sleeps, given.command)
        )
        timeout = given.timeout or (_budget(context.surroundings) if may_go_on else timeouts()[0])
        order = Order(
            given.command,
            timeout / 1000,
            given.description,
            in_background=given.run_in_background,
            may_go_on=may_go_on,
            program=self.program,
            outside=given.dangerously_disable_sandbox,
        )
        before: Journals | None = None
        if may_move(given.command):
            before = await read_in_thread(journals_before, given.command, context.surroundings.shell_folder)
        try:
            finished = await run_command(order, context)
        except (NoFolder, NotProtectable) as error:
            return Failure(str(error))
        except OSError as error:
            return Failure(f"The command could not be started: {error.strerror}.")
        if isinstance(finished, Backgrounded):
            return Ran(gone_on(finished, order))
        moves: list[Move] = []
        if before is not None and finished.exit_code == 0:
            places = (finished.started_in, finished.ended_in)
            moves = await read_in_thread(moves_since, given.command, places, before)
        return await self._ended(given, finished, moves, timeout, context.surroundings)

    async def _ended(
        self, given: ShellInput, finished: Finished, moves: Sequence[Move], limit_ms: int, surroundings: Surroundings
    ) -> Ran[ShellOutput]:
        harmless = self.harmless(given.command, finished.output) if finished.exit_code == 1 else None
        output, is_error = judged(finished, limit_ms, harmless)
        changes: list[Change] = []
        facts: dict[str, Any] = {"no_output_expected": not finished.output and self.is_silent(given.command)}
        if finished.exit_code == 0 and (done := self.git(given.command, finished.output, moves)) is not None:
            facts["git"] = done
            changes.append(GitChanged(done.model_dump(exclude_none=True)))
        output = output.model_copy(update=facts)
        if finished.ended_in != surroundings.shell_folder:
            place, remarks = await read_in_thread(next_folder, finished, surroundings)
            output = with_remarks(output, remarks)
            changes += [FolderChanged(place)] if place != surroundings.shell_folder else []
        return Ran(output, is_error=is_error, changes=changes)

    def stopped(self, printed: str, duration_ms: int) -> ShellOutput:
        return ShellOutput(stdout=printed, exit_code=None, interrupted=True, duration_ms=duration_ms)

    def render(self, output: ShellOutput) -> list[Block]:
        return rendered(output)


async def _asked(look: Callable[[str], bool], command: str) -> bool:
    return look(command) if is_read_at_once(command) else await read_in_thread(look, command)


def outside_the_sandbox(message: str) -> AskFirst:
    """What is said about a command that wants to leave it."""
    return AskFirst(message, reason="The model wants it to run outside the sandbox.", safety=True)


def _may_leave_sandbox(surroundings: Surroundings) -> bool:
    return surroundings.sandboxing is not None and surroundings.sandboxing.may_be_left


def _budget(surroundings: Surroundings) -> int:
    """How long a command that may go on in the background is waited for, in milliseconds."""
    default = timeouts()[0]
    return default if surroundings.assistant is None else min(default, surroundings.assistant.blocking_ms)


def timeouts() -> tuple[int, int]:
    """The default and the maximum, which is never below it."""
    default = _from_environment("BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_TIMEOUT_MS)
    return default, max(default, _from_environment("BASH_MAX_TIMEOUT_MS", _MAX_TIMEOUT_MS))


def _from_environment(name: str, default: int) -> int:
    given = os.environ.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 12 and int(given) > 0 else default
