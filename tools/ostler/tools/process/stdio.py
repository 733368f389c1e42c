"""A child process with three pipes as its standard streams, behind a gate, and ended with all that it started."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import anyio

from ostler.protocol.ids import CallId
from ostler.tools.process import process
from ostler.tools.services import Processes

StreamName = Literal["stdout", "stderr"]

_CHUNK_BYTES: Final = 64 * 1024
_CLEAN_UP_SECONDS: Final = 10.0


@dataclass(slots=True)
class StdioProcess:
    """A program that reads one line, the gate's, before it begins; what is written after that is its input."""

    child: process.Child
    _call_id: CallId
    _processes: Processes
    _pipes: dict[str, int]
    """Our ends of the pipes that are open."""
    _is_ended: bool = False

    @classmethod
    async def start(
        cls, arguments: list[str], environment: Mapping[str, str], call_id: CallId, processes: Processes
    ) -> "StdioProcess":
        """Raises OSError."""
        ends: list[int] = []
        try:
            for _ in range(3):
                ends += os.pipe()
            theirs, stdin, stdout, output, stderr, errors = ends
            try:
                child = process.spawn(arguments, environment, (theirs, output, errors))
            finally:
                os.close(output)
                os.close(errors)
                ends = [stdin, stdout, stderr]
            for end in ends:
                os.set_blocking(end, False)
            await process.open_gate(child, stdin, call_id, processes)
        except BaseException:
            for end in ends:
                os.close(end)
            raise
        return cls(child, call_id, processes, {"stdin": stdin, "stdout": stdout, "stderr": stderr})

    async def write(self, data: bytes) -> None:
        """Returns when the program, or the pipe, has taken it. Raises BrokenPipeError where nobody reads any more."""
        rest = memoryview(data)
        while rest:
            if (end := self._pipes.get("stdin")) is None:
                raise BrokenPipeError
            await anyio.wait_writable(end)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(end, rest[:_CHUNK_BYTES]) :]

    async def read(self, stream: StreamName) -> bytes:
        """What it has printed; empty at the end of the stream."""
        while (end := self._pipes.get(stream)) is not None:
            await anyio.wait_readable(end)
            with contextlib.suppress(BlockingIOError):
                return os.read(end, _CHUNK_BYTES)
        return b""

    def close(self, *names: Literal["stdin", "stdout", "stderr"]) -> None:
        """Nobody may be waiting for one of these."""
        for name in names:
            if (end := self._pipes.pop(name, None)) is not None:
                os.close(end)

    async def end(self) -> None:
        """Ends all its living processes. What it printed last can still be read."""
        if self._is_ended:
            return
        self._is_ended = True
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS):
                await self.child.end_tree(self._call_id)
                await self.child.wait()
        finally:
            self.child.release()
            self._processes.record_end(self._call_id, self.child.pid)
