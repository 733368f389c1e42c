"""Bash: one command, in the foreground."""

import os
from typing import Final

from pydantic import Field

from ostler.protocol.ids import CallId
from ostler.tools import paths
from ostler.tools.command_check import Bound, Judged, bound, changes_folder, judge, seems_read_only, subject
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.sandbox import NotProtectable
from ostler.tools.shell import MAX_OUTPUT_BYTES, Finished, NoFolder, run_command
from ostler.tools.shell_output import for_the_model, long_sleep, meaning, signal_name
from ostler.tools.subject import Subject
from ostler.tools.text_files import size_in_words
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Block,
    Check,
    Failure,
    FolderChanged,
    Ran,
    Tool,
    ToolInput,
    ToolOutput,
    text_block,
)

_DEFAULT_TIMEOUT_MS: Final = 120_000
_MAX_TIMEOUT_MS: Final = 600_000
_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""
_MAX_COMMAND_BYTES: Final = 100_000
"""Linux takes 128 KiB in one argument."""


class BashInput(ToolInput):
    """A command."""

    command: str = Field(description="The command, as bash takes it.")
    timeout: int | None = Field(None, description="Milliseconds after which it is ended.")
    description: str | None = Field(None, description="What it does, in five to ten words.")


class BashOutput(ToolOutput):
    """What it printed and how it ended."""

    stdout: str
    """Both streams, in the order in which they were written."""
    stderr: str = ""
    """Only what we have to say about it."""
    exit_code: int | None
    signal: str | None = None
    interrupted: bool = False
    timed_out: bool = False
    return_code_interpretation: str | None = None
    sandboxed: bool = False
    duration_ms: int


class Bash(Tool[BashInput, BashOutput]):
    """Runs a command in the session's folder."""

    name = "Bash"
    Input = BashInput
    Output = BashOutput
    title = "Runs a shell command"
    search_hint = "run execute shell command terminal program script"
    max_result_chars = 30_000
    is_shell = True
    waits_at_gate = True

    def __init__(self) -> None:
        self._bound: dict[CallId, Bound] = {}

    def description(self, surroundings: Surroundings) -> str:
        default, maximum = timeouts()
        return self._words.replace("{default}", str(default)).replace("{maximum}", str(maximum))

    def activity(self, given: BashInput) -> Activity:
        return "run"

    def permission_matcher(self, given: BashInput) -> str:
        return given.command

    def summary(self, given: BashInput) -> str:
        # The command itself and never the model's words about it: a person decides by this line.
        return " ".join(given.command.split())[:200]

    def classifier_text(self, given: BashInput) -> str:
        return given.command

    async def validate(self, given: BashInput, context: ToolContext) -> Failure | None:
        if "\0" in given.command:
            return Failure("The command holds a NUL byte.")
        if not given.command.strip():
            return Failure("The command is empty.")
        if len(given.command.encode()) > _MAX_COMMAND_BYTES:
            return Failure(
                f"The command is longer than {_MAX_COMMAND_BYTES} bytes: write it to a file with Write, and run that."
            )
        if long_sleep(given.command):
            return Failure(
                "A command that begins by waiting only wastes time: run what you wait for in the foreground, or wait "
                "for its condition, as in `until curl -s localhost:8000; do sleep 1; done`, with a timeout."
            )
        maximum = timeouts()[1]
        if given.timeout is not None and not 1 <= given.timeout <= maximum:
            return Failure(f"timeout is {given.timeout}, but must be from 1 to {maximum} milliseconds.")
        return None

    def is_read_only(self, given: BashInput) -> bool:
        return seems_read_only(given.command)

    def is_concurrency_safe(self, given: BashInput) -> bool:
        # The next command starts where this one went.
        return seems_read_only(given.command) and not changes_folder(given.command)

    async def subject(self, given: BashInput, surroundings: Surroundings) -> Subject:
        return await read_in_thread(subject, given.command, surroundings.shell_folder)

    async def check_permission(self, given: BashInput, context: ToolContext) -> Check:
        judged, about = await read_in_thread(_judged_and_bound, given.command, context.surroundings)
        self._bound[context.call_id] = about
        if len(self._bound) > _REMEMBERED:
            self._bound.pop(next(iter(self._bound)))
        return judged.check

    async def run(self, given: BashInput, context: ToolContext) -> Ran[BashOutput] | Failure:
        surroundings = context.surroundings
        timeout = given.timeout or timeouts()[0]
        approved = self._bound.pop(context.call_id, None)
        if approved is not None and await _is_another(approved, given.command, surroundings):
            return Failure("The folder or a script of this command is another one than when it was allowed. Ask again.")
        try:
            finished = await run_command(given.command, timeout, context)
        except (NoFolder, NotProtectable) as error:
            return Failure(str(error))
        except OSError as error:
            return Failure(f"The command could not be started: {error.strerror}.")
        output, is_error = _judged(given.command, finished, timeout)
        if finished.ended_in == surroundings.shell_folder:
            return Ran(output, is_error=is_error)
        place, remarks = await read_in_thread(_next_folder, finished, surroundings)
        told = "\n".join(filter(None, [output.stderr, *remarks]))
        changes = [FolderChanged(place)] if place != surroundings.shell_folder else []
        return Ran(output.model_copy(update={"stderr": told}), is_error=is_error, changes=changes)

    def render(self, output: BashOutput) -> list[Block]:
        parts = [for_the_model(output.stdout).rstrip("\n")]
        if output.return_code_interpretation is not None:
            parts.append(f"(exit code {output.exit_code}: {output.return_code_interpretation})")
        elif output.signal is not None:
            parts.append(f"(ended by {output.signal})")
        elif output.exit_code:
            parts.append(f"(exit code {output.exit_code})")
        if output.stderr:
            parts.append("\n".join(f"({remark})" for remark in output.stderr.split("\n")))
        return [text_block("\n".join(part for part in parts if part))]


def _judged_and_bound(command: str, surroundings: Surroundings) -> tuple[Judged, Bound]:
    return judge(command, surroundings), bound(command, surroundings)


async def _is_another(approved: Bound, command: str, surroundings: Surroundings) -> bool:
    """Whether it would run in another folder, or another script, than when it was approved."""
    if not approved.scripts:
        return approved.folder != surroundings.shell_folder
    return approved != await read_in_thread(bound, command, surroundings)


def timeouts() -> tuple[int, int]:
    """The default and the maximum, which is never below it."""
    default = _from_environment("BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_TIMEOUT_MS)
    return default, max(default, _from_environment("BASH_MAX_TIMEOUT_MS", _MAX_TIMEOUT_MS))


def _from_environment(name: str, default: int) -> int:
    given = os.environ.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and int(given) > 0 else default


def _next_folder(finished: Finished, surroundings: Surroundings) -> tuple[str, list[str]]:
    """Where the next command starts, and what the model must know about that."""
    remarks: list[str] = []
    if finished.started_in != surroundings.shell_folder:
        remarks.append(f"The folder {surroundings.shell_folder} is gone: the command ran in {finished.started_in}.")
    place = paths.real(finished.ended_in)
    if not os.path.isdir(place):
        return surroundings.folder, remarks
    back = finished.started_in
    if paths.printable(place) != place:
        remarks.append(f"The folder's name is not UTF-8: the next command starts in {back} again.")
    elif paths.inside_roots(place, surroundings):
        return place, remarks
    else:
        remarks.append(f"{place} is outside the session's folders: the next command starts in {back} again.")
    return back, remarks


def _judged(command: str, finished: Finished, timeout: int) -> tuple[BashOutput, bool]:
    """The output, and whether it is a failure."""
    output = BashOutput(
        stdout=finished.output,
        exit_code=finished.exit_code,
        duration_ms=finished.duration_ms,
        sandboxed=finished.sandboxed,
    )
    if finished.timed_out:
        words = f"Timed out after {timeout / 1000:g} s: it was ended, with all that it had started."
        return output.model_copy(update={"timed_out": True, "stderr": words}), True
    if finished.too_much:
        words = f"It printed more than {size_in_words(MAX_OUTPUT_BYTES)}, and was ended."
        return output.model_copy(update={"stderr": words}), True
    if finished.left_behind:
        names = ", ".join(sorted(set(finished.left_behind))[:5])
        output = output.model_copy(update={"stderr": f"What it had left running was ended: {names}."})
    code = finished.exit_code
    number = finished.signal or (code - 128 if code is not None and 128 < code < 160 else None)
    if number is not None:
        return output.model_copy(update={"signal": signal_name(number), "exit_code": 128 + number}), True
    harmless = meaning(command, code) if code else None
    return output.model_copy(update={"return_code_interpretation": harmless}), bool(code) and harmless is None
