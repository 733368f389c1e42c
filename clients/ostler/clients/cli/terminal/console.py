"""Where lines are typed: a terminal that shows them as they are typed, or a pipe."""

import math
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import anyio

from ostler.clients.cli.output import counted
from ostler.clients.cli.render.sink import Paper, StreamPaper
from ostler.clients.cli.terminal.line_editor import Leave, Line, LineEditor, Typed
from ostler.clients.cli.terminal.screen import Screen

_CHUNK: Final = 64 * 1024
_ESCAPE_SECONDS: Final = 0.05
"""The rest of a key that begins with Esc comes sooner than this."""
_ECHO_LINES: Final = 40
_ECHO_CHARACTERS: Final = 4000
_PASTE_ON: Final = "\x1b[?2004h"
_PASTE_OFF: Final = "\x1b[?2004l"


class Console(Protocol):
    """Both halves: what is typed, and the paper that it is answered on."""

    @property
    def paper(self) -> Paper: ...

    @property
    def is_terminal(self) -> bool: ...

    def typed(self) -> AsyncGenerator[Typed, None]:
        """Lines, until there are no more."""
        ...

    def ask_for(self, prompt: str, single_keys: str = "") -> None:
        """What is wanted next, and which keys need no Enter."""

    def fill(self, text: str) -> None:
        """Begin the next line with this text."""

    @property
    def pressed(self) -> float:
        """When a key was pressed last, by the clock that never goes back."""
        ...

    def put_aside(self) -> str:
        """Begin the line again with nothing; what was typed and not sent."""
        ...

    def remember(self, line: str) -> None:
        """Let an arrow bring this back."""

    def echo(self, text: str) -> None:
        """A line that was sent becomes part of what was told."""

    def resume(self) -> None:
        """The person put it into the background and has come back."""

    def resized(self) -> None:
        """There is more room, or less."""


class PipeConsole:
    """Lines from a pipe or a file, answers to stdout; nothing is drawn."""

    is_terminal = False
    pressed = -math.inf

    def __init__(self) -> None:
        self.paper: Paper = StreamPaper(sys.stdout, sys.stdout)

    async def typed(self) -> AsyncGenerator[Typed, None]:
        rest = b""
        while True:
            chunk = await _read(sys.stdin.fileno())
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield Line(line.decode("utf-8", "replace"))
            if not chunk:
                if rest:
                    yield Line(rest.decode("utf-8", "replace"))
                yield Leave()
                return

    def ask_for(self, prompt: str, single_keys: str = "") -> None:
        return

    def fill(self, text: str) -> None:
        return

    def put_aside(self) -> str:
        return ""

    def remember(self, line: str) -> None:
        return

    def echo(self, text: str) -> None:
        return

    def resume(self) -> None:
        return

    def resized(self) -> None:
        return


class TerminalConsole:
    """A person at a keyboard."""

    is_terminal = True

    def __init__(self) -> None:
        self._editor = LineEditor()
        self._screen = Screen(self._editor)
        self._prompt = ""
        self._reading = False
        self.pressed = -math.inf

    @property
    def paper(self) -> Paper:
        return self._screen

    async def typed(self) -> AsyncGenerator[Typed, None]:
        with _key_by_key(sys.stdin.fileno()):
            try:
                self._reading = True
                self._screen.ask_for(self._prompt)
                while chunk := await _read(sys.stdin.fileno()):
                    self.pressed = time.monotonic()
                    for one in self._editor.feed(chunk):
                        yield one
                    self._screen.redraw()
                    if self._editor.has_escape and not await _more_soon(sys.stdin.fileno()):
                        yield self._editor.escape()
                yield Leave()
            finally:
                self._reading = False
                self._screen.ask_for(None)

    def ask_for(self, prompt: str, single_keys: str = "") -> None:
        self._prompt = prompt
        self._editor.single_keys = frozenset(single_keys)
        if self._reading:  # a prompt says that keys are taken
            self._screen.ask_for(prompt)

    def fill(self, text: str) -> None:
        self._editor.fill(text)
        self._screen.redraw()

    def put_aside(self) -> str:
        text = self._editor.put_aside()
        self._screen.redraw()
        return text

    def remember(self, line: str) -> None:
        self._editor.remember(line)

    def echo(self, text: str) -> None:
        self._screen.fresh()
        self._screen.aside(f"{self._prompt}{_echoed(text)}\n", "bold")

    def resume(self) -> None:
        tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)
        self._screen.redraw()

    def resized(self) -> None:
        self._screen.redraw()


def console() -> Console:
    """What there is: nothing can be drawn again on a terminal that knows no sequences."""
    draws = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalConsole() if draws else PipeConsole()


def _echoed(text: str) -> str:
    """What was sent, and of a long paste only the beginning: the rest is known."""
    lines = text[:_ECHO_CHARACTERS].split("\n")[:_ECHO_LINES]
    left = len(text) - len("\n".join(lines))
    return "\n".join(lines) + (f"… ({counted(left, 'character')} more)" if left else "")


async def _more_soon(descriptor: int) -> bool:
    with anyio.move_on_after(_ESCAPE_SECONDS):
        await anyio.wait_readable(descriptor)
        return True
    return False


async def _read(descriptor: int) -> bytes:
    with suppress(PermissionError):  # a plain file, which can always be read
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, _CHUNK)


@contextmanager
def _key_by_key(descriptor: int) -> Iterator[None]:
    """Keys come as they are pressed and are not shown by the terminal; Ctrl-C stays a signal."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSADRAIN)
    sys.stdout.write(_PASTE_ON)
    try:
        yield
    finally:
        sys.stdout.write(_PASTE_OFF)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
