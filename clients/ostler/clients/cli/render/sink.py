"""Where a session is written as it happens: the model's text, and notes about it, never both in one line."""

import sys
from typing import Protocol, TextIO

from ostler.clients.cli.output import Colour, colourize, is_terminal, sanitize


class OutputSink(Protocol):
    def write_text(self, text: str, colour: Colour | None = None) -> None:
        """Write what the model says; it may end in the middle of a line."""

    def write_note(self, text: str, colour: Colour | None = None) -> None:
        """Write a note about what happens; it may end in the middle of a line."""

    def show_status(self, text: str) -> None:
        """Show a status at the end of the line for now; only where it can be erased again."""

    def end_line(self) -> None:
        """End the line that is not ended, if there is one."""


class StreamSink:
    """Two streams, or twice the same, that are only ever added to."""

    def __init__(self, text_stream: TextIO | None = None, note_stream: TextIO | None = None) -> None:
        self._text_stream = text_stream or sys.stdout
        self._note_stream = note_stream or sys.stderr
        self._unfinished: TextIO | None = None

    def write_text(self, text: str, colour: Colour | None = None) -> None:
        self._write(self._text_stream, text, colour)

    def write_note(self, text: str, colour: Colour | None = None) -> None:
        self._write(self._note_stream, text, colour)

    def show_status(self, text: str) -> None:
        return

    def end_line(self) -> None:
        if self._unfinished is not None:
            print(file=self._unfinished, flush=True)
            self._unfinished = None

    def _write(self, stream: TextIO, text: str, colour: Colour | None) -> None:
        if not text:
            return
        if stream is not self._unfinished:
            self.end_line()
        shown = sanitize(text) if is_terminal(stream) else text
        print(colourize(shown, colour, stream) if colour else shown, end="", file=stream, flush=True)
        self._unfinished = None if text.endswith("\n") else stream
