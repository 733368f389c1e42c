"""A command as the source of a background task."""

from dataclasses import dataclass

from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import outcome
from ostler.tools.services import RunningCommand
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.result import describe_set_aside
from ostler.tools.threads import read_in_thread


@dataclass(frozen=True, slots=True)
class CommandSource:
    running: RunningCommand

    @property
    def output(self) -> OutputFile:
        return self.running.output

    @property
    def ended(self) -> bool:
        return self.running.child.ended

    async def wait(self) -> None:
        await self.running.wait()

    async def end(self) -> None:
        await self.running.end()
        if self.running.set_aside:
            await read_in_thread(self.output.append_line, f"({describe_set_aside(self.running.set_aside)})")

    async def build_outcome(self, task: Task, size: int) -> Task:
        if self.running.stopped_by is not None:
            return outcome.mark_failed(task, self.running.stopped_by, size)
        left = await read_in_thread(self.output.read_ending)
        code, signal_number = self.running.resolve_exit_code(left), self.running.child.signal
        return outcome.mark_ended(task, code, signal_number, size, outcome.KILLED_EXTERNALLY)
