"""Copies a command's output from a pipe to its file, in a process that outlives the daemon.

Were the file itself the command's output, `echo oops >/dev/stderr` in any script would empty it: to open a regular file
through one of those names is to open it anew, with all that `>` does. A pipe that is opened anew is the same pipe. And
were the daemon itself the reader, a task that goes on without the daemon would get SIGPIPE when it prints next.
"""

import os
import shutil
import signal
from functools import cache
from typing import Final

import anyio

from ostler.tools.process.orphans import block_orphan_scan
from ostler.tools.process.process import WatchedProcess

_GRACE_SECONDS: Final = 2.0
"""Seconds for the last output of an ended command. Only a process that was not found can still be writing."""


class PipeCopier(WatchedProcess):
    """Ends by itself when nobody can write to its pipe any more; then the file has all of it."""

    def __init__(self, pid: int, pipe: int) -> None:
        super().__init__(pid)
        self._pipe = pipe

    @classmethod
    def start(cls, output: int) -> "PipeCopier":
        """Copies into the file with that descriptor. Raises OSError."""
        pipe_end, pipe = os.pipe()
        try:
            with block_orphan_scan():
                return cls(
                    os.posix_spawn(
                        _find_cat(),
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
        with anyio.move_on_after(_GRACE_SECONDS):
            await self.wait()
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            await self.wait()
        self.release()


@cache
def _find_cat() -> str:
    return shutil.which("cat") or "/bin/cat"
