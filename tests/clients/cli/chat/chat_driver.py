"""`ostler chat` and `attach` in a process, on a terminal or on pipes: tests type input and read output."""

import os
import pty
import re
import select
import signal
import time
from pathlib import Path
from typing import Self

from tests.clients.conftest import Cli
from tests.support.forked import fork_command

WAIT_SECONDS = 30.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ChatDriver:
    """Drives one chat on a terminal or on pipes, and keeps all its output."""

    def __init__(self, cli: Cli, *arguments: str, cwd: Path | None = None, terminal: bool = False) -> None:
        self.output = ""
        """All that was printed so far; colours are left out."""
        self.raw = ""
        """The same with colours."""
        self._seen = 0
        if terminal:
            self._out, theirs = pty.openpty()
            self._in = self._out
            streams = (theirs, theirs, theirs)
        else:
            reading, self._in = os.pipe()
            self._out, writing = os.pipe()
            streams = (reading, writing, writing)
        environ = {**cli.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self.process = fork_command(list(arguments), environ, streams, cwd, terminal=terminal)

    def type(self, text: str) -> None:
        os.write(self._in, text.encode())

    def type_line(self, line: str) -> None:
        self.type(f"{line}\n")

    def read_until(self, text: str) -> str:
        """Read on until this appears after what was waited for before; what came up to it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (at := self.output.find(text, self._seen)) < 0:
            assert self._read_more(deadline), f"no {text!r} in {self.output[self._seen :]!r}"
        found = self.output[self._seen : at + len(text)]
        self._seen = at + len(text)
        return found

    def read_until_all(self, *texts: str) -> None:
        """Read on until each of these has appeared after what was waited for before, in whichever order."""
        begin, ends = self._seen, list[int]()
        for text in texts:
            self._seen = begin
            self.read_until(text)
            ends.append(self._seen)
        self._seen = max(ends)

    def _read_more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self._out, 65536)
        except OSError:  # how Linux says that the terminal is closed
            return False
        self.raw += piece.decode("utf-8", "replace")
        self.output = _COLOUR.sub("", self.raw).replace("\r\n", "\n")
        return bool(piece)

    def close_input(self) -> None:
        """What Ctrl-D is in a pipe."""
        os.close(self._in)
        self._in = -1

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Read all there is, and give the exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read_more(deadline):
            pass
        return self.process.wait(WAIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for descriptor in {self._in, self._out} - {-1}:
            os.close(descriptor)
