"""The console of a chat: a terminal that shows lines as they are typed, or a pipe."""

import math
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import anyio

from ostler.clients.cli.output import format_count
from ostler.clients.cli.render.sink import OutputSink, StreamSink
from ostler.clients.cli.terminal.line_editor import EndOfInput, InputEvent, Line, LineEditor
from ostler.clients.cli.terminal.screen import Screen

_CHUNK: Final = 64 * 1024
_ESCAPE_SECONDS: Final = 0.05
"""The rest of a key that begins with Esc comes sooner than this."""
_ECHO_LINES: Final = 40
_ECHO_CHARACTERS: Final = 4000
_PASTE_ON: Final = "\x1b[?2004h"
_PASTE_OFF: Final = "\x1b[?2004l"


class Console(Protocol):
    """Both halves of a chat: the input, and the sink that the output is written to."""

    @property
    def sink(self) -> OutputSink: ...

    @property
    def is_terminal(self) -> bool: ...

    def read_input(self) -> AsyncGenerator[InputEvent, None]:
        """Lines, until there are no more."""
        ...

    def set_prompt(self, prompt: str, single_keys: str = "", openers: str = "") -> None:
        """What is wanted next, which keys need no Enter, and which others begin a line then."""

    def fill(self, text: str) -> None:
        """Begin the next line with this text."""

    @property
    def pressed_at(self) -> float:
        """When a key was pressed last, by the monotonic clock."""
        ...

    def take_draft(self) -> str:
        """Empty the line; what was typed and not sent."""
        ...

    def add_to_history(self, line: str) -> None:
        """Add a line to the history, from which the arrow keys bring it back."""

    def echo(self, text: str) -> None:
        """Write a line that was sent as part of the output."""

    def resume(self) -> None:
        """Continue after the process was suspended (SIGCONT)."""

    def on_resize(self) -> None:
        """The terminal has another size (SIGWINCH)."""

    @property
    def is_lent(self) -> bool:
        """Another program has the terminal, and its signals."""
        ...

    async def run_program(self, command: Sequence[str]) -> int:
        """Lend the terminal to a program until it ends; its exit code. Raises OSError."""
        ...


class PipeConsole:
    """Lines from a pipe or a file, answers to stdout; nothing is drawn."""

    is_terminal = False
    is_lent = False
    pressed_at = -math.inf

    def __init__(self) -> None:
        self.sink: OutputSink = StreamSink(sys.stdout, sys.stdout)

    async def read_input(self) -> AsyncGenerator[InputEvent, None]:
        rest = b""
        while True:
            chunk = await _read_chunk(sys.stdin.fileno())
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield Line(line.decode("utf-8", "replace"))
            if not chunk:
                if rest:
                    yield Line(rest.decode("utf-8", "replace"))
                yield EndOfInput()
                return

    def set_prompt(self, prompt: str, single_keys: str = "", openers: str = "") -> None:
        return

    def fill(self, text: str) -> None:
        return

    def take_draft(self) -> str:
        return ""

    def add_to_history(self, line: str) -> None:
        return

    def echo(self, text: str) -> None:
        return

    def resume(self) -> None:
        return

    def on_resize(self) -> None:
        return

    async def run_program(self, command: Sequence[str]) -> int:
        raise OSError(f"{command[0]} needs a terminal")


class TerminalConsole:
    """A person at a keyboard."""

    is_terminal = True

    def __init__(self) -> None:
        self._editor = LineEditor()
        self._screen = Screen(self._editor)
        self._prompt = ""
        self._reading = False
        self.is_lent = False
        self._before: list[Any] | None = None
        """The terminal's attributes before the chat, which other programs get."""
        self.pressed_at = -math.inf

    @property
    def sink(self) -> OutputSink:
        return self._screen

    async def read_input(self) -> AsyncGenerator[InputEvent, None]:
        with _enter_cbreak(sys.stdin.fileno()) as self._before:
            try:
                self._reading = True
                self._screen.set_prompt(self._prompt)
                while chunk := await _read_chunk(sys.stdin.fileno()):
                    self.pressed_at = time.monotonic()
                    for one in self._editor.feed(chunk):
                        yield one
                    self._screen.redraw()
                    if self._editor.has_escape and not await _wait_for_more(sys.stdin.fileno()):
                        yield self._editor.take_escape()
                yield EndOfInput()
            finally:
                self._reading = False
                self._screen.set_prompt(None)

    def set_prompt(self, prompt: str, single_keys: str = "", openers: str = "") -> None:
        self._prompt = prompt
        self._editor.single_keys = frozenset(single_keys)
        self._editor.openers = frozenset(f"/{openers}")
        if self._reading:  # a prompt says that keys are taken
            self._screen.set_prompt(prompt)

    def fill(self, text: str) -> None:
        self._editor.fill(text)
        self._screen.redraw()

    def take_draft(self) -> str:
        text = self._editor.take_draft()
        self._screen.redraw()
        return text

    def add_to_history(self, line: str) -> None:
        self._editor.add_to_history(line)

    def echo(self, text: str) -> None:
        self._screen.end_line()
        self._screen.write_note(f"{self._prompt}{_shorten_echo(text)}\n", "bold")

    async def run_program(self, command: Sequence[str]) -> int:
        descriptor = sys.stdin.fileno()
        ours = termios.tcgetattr(descriptor)
        self._screen.hold()
        self.is_lent = True
        try:
            if self._before is not None:
                termios.tcsetattr(descriptor, termios.TCSADRAIN, self._before)
            async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None) as process:
                return await process.wait()
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, ours)
            self.is_lent = False
            self._screen.release()
            self._screen.set_prompt(self._prompt if self._reading else None)

    def resume(self) -> None:
        if self.is_lent:
            return
        tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)
        self._screen.redraw()

    def on_resize(self) -> None:
        self._screen.redraw()


def open_console() -> Console:
    """The console that fits: nothing can be redrawn on a terminal that knows no escape sequences."""
    draws = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalConsole() if draws else PipeConsole()


def _shorten_echo(text: str) -> str:
    """What was sent, and of a long paste only the beginning: the rest is known."""
    lines = text[:_ECHO_CHARACTERS].split("\n")[:_ECHO_LINES]
    left = len(text) - len("\n".join(lines))
    return "\n".join(lines) + (f"… ({format_count(left, 'character')} more)" if left else "")


async def _wait_for_more(descriptor: int) -> bool:
    with anyio.move_on_after(_ESCAPE_SECONDS):
        await anyio.wait_readable(descriptor)
        return True
    return False


async def _read_chunk(descriptor: int) -> bytes:
    with suppress(PermissionError):  # a plain file, which can always be read
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, _CHUNK)


@contextmanager
def _enter_cbreak(descriptor: int) -> Iterator[list[Any]]:
    """Cbreak mode: keys come as they are pressed and are not shown by the terminal; Ctrl-C stays a signal."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSADRAIN)
    sys.stdout.write(_PASTE_ON)
    try:
        yield before
    finally:
        sys.stdout.write(_PASTE_OFF)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
