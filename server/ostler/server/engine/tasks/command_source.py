"""A command as the source of a task."""

from dataclasses import dataclass

from ostler.protocol.shapes import Task
from ostler.server.engine.tasks import outcome
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.running.command import RunningCommand
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
        await self.running.child.wait()

    async def end(self) -> None:
        await self.running.end()

    async def outcome(self, task: Task, size: int) -> Task:
        left = await read_in_thread(self.output.ending)
        code, number = self.running.exit_code(left), self.running.child.signal
        return outcome.ended(task, code, number, size, outcome.WITHOUT_A_WORD)
