"""Where a session is written down as it happens: words here, asides there, and never two in one line."""

import sys
from typing import Protocol, TextIO

from ostler.clients.cli.output import Colour, coloured, is_terminal, printable


class Paper(Protocol):
    def words(self, text: str, colour: Colour | None = None) -> None:
        """Go on with what the model says; it may end in the middle of a line."""

    def aside(self, text: str, colour: Colour | None = None) -> None:
        """Go on with what is told about it; it may end in the middle of a line."""

    def passing(self, text: str) -> None:
        """What stands at the end of the line for now; only where it can be taken away again."""

    def fresh(self) -> None:
        """End the line that is not ended, if there is one."""


class StreamPaper:
    """Two streams, or twice the same, that are only ever added to."""

    def __init__(self, words: TextIO | None = None, asides: TextIO | None = None) -> None:
        self._words = words or sys.stdout
        self._asides = asides or sys.stderr
        self._unfinished: TextIO | None = None

    def words(self, text: str, colour: Colour | None = None) -> None:
        self._write(self._words, text, colour)

    def aside(self, text: str, colour: Colour | None = None) -> None:
        self._write(self._asides, text, colour)

    def passing(self, text: str) -> None:
        return

    def fresh(self) -> None:
        if self._unfinished is not None:
            print(file=self._unfinished, flush=True)
            self._unfinished = None

    def _write(self, stream: TextIO, text: str, colour: Colour | None) -> None:
        if not text:
            return
        if stream is not self._unfinished:
            self.fresh()
        shown = printable(text) if is_terminal(stream) else text
        print(coloured(shown, colour, stream) if colour else shown, end="", file=stream, flush=True)
        self._unfinished = None if text.endswith("\n") else stream
