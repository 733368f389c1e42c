"""Programs that are spoken to: three pipes, a gate before they begin, and an end with all that they started."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import anyio

from ostler.protocol.ids import CallId
from ostler.tools.process import process
from ostler.tools.services import Processes

Mouth = Literal["stdout", "stderr"]

_AT_ONCE: Final = 64 * 1024
_CLEAN_UP: Final = 10.0


@dataclass(slots=True)
class Talker:
    """A program that reads one line before it begins; what comes after that is for it."""

    child: process.Child
    _call_id: CallId
    _processes: Processes
    _ends: dict[str, int]
    """Our ends of the pipes that are open."""
    _over: bool = False

    @classmethod
    async def start(
        cls, arguments: list[str], environment: Mapping[str, str], call_id: CallId, processes: Processes
    ) -> "Talker":
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
            await process.let_begin(child, stdin, call_id, processes)
        except BaseException:
            for end in ends:
                os.close(end)
            raise
        return cls(child, call_id, processes, {"stdin": stdin, "stdout": stdout, "stderr": stderr})

    async def write(self, data: bytes) -> None:
        """Returns when the program, or the pipe, has taken it. Raises BrokenPipeError where nobody reads any more."""
        rest = memoryview(data)
        while rest:
            if (end := self._ends.get("stdin")) is None:
                raise BrokenPipeError
            await anyio.wait_writable(end)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(end, rest[:_AT_ONCE]) :]

    async def read(self, mouth: Mouth) -> bytes:
        """What it has said; nothing at the end."""
        while (end := self._ends.get(mouth)) is not None:
            await anyio.wait_readable(end)
            with contextlib.suppress(BlockingIOError):
                return os.read(end, _AT_ONCE)
        return b""

    def close(self, *names: Literal["stdin", "stdout", "stderr"]) -> None:
        """Nobody may be waiting at one of these."""
        for name in names:
            if (end := self._ends.pop(name, None)) is not None:
                os.close(end)

    async def end(self) -> None:
        """End whatever is alive of it. What it said last can still be read."""
        if self._over:
            return
        self._over = True
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP):
                await self.child.end_tree(self._call_id)
                await self.child.wait()
        finally:
            self.child.release()
            self._processes.ended(self._call_id, self.child.pid)
