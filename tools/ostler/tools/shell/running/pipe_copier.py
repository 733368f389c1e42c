"""From a command's pipe to its file, by a process that outlives the daemon.

Were the file itself the command's output, `echo oops >/dev/stderr` in any script would empty it: to open a regular file
through one of those names is to open it anew, with all that `>` does. A pipe that is opened anew is the same pipe. And
were the daemon itself at the other end, a task that goes on without the daemon would die of its next word.
"""

import os
import shutil
import signal
from functools import cache
from typing import Final

import anyio

from ostler.tools.process.orphans import no_orphan_yet
from ostler.tools.process.process import Watched

_PATIENCE: Final = 2.0
"""Seconds for the last words of a command that has ended. Only a process that nobody has found can still be writing."""


class Copier(Watched):
    """Ends by itself when nobody can write to its pipe any more; then the file has all of it."""

    def __init__(self, pid: int, pipe: int) -> None:
        super().__init__(pid)
        self._pipe = pipe

    @classmethod
    def start(cls, output: int) -> "Copier":
        """Into the file that is open there. Raises OSError."""
        pipe_end, pipe = os.pipe()
        try:
            with no_orphan_yet():
                return cls(
                    os.posix_spawn(
                        _cat(),
                        ["cat"],
                        {},
                        file_actions=[(os.POSIX_SPAWN_DUP2, pipe_end, 0), (os.POSIX_SPAWN_DUP2, output, 1)],
                        setsid=True,
                        setsigmask=[],
                        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
                    ),
                    pipe,
                )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(pipe_end)

    @property
    def pipe(self) -> int:
        """Where the command writes to."""
        return self._pipe

    def close_pipe(self) -> None:
        """The command has its own end by now, or will never need one."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    async def finish(self) -> None:
        """Wait until all is in the file."""
        self.close_pipe()
        with anyio.move_on_after(_PATIENCE):
            await self.wait()
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            await self.wait()
        self.release()


@cache
def _cat() -> str:
    return shutil.which("cat") or "/bin/cat"
