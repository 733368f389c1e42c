"""The console of a chat: a terminal that is drawn on while somebody types, or a pipe."""

import fcntl
import math
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

from ostler.clients.cli.output import Colour, format_count
from ostler.clients.cli.render.blocks.rows import Row, Run, clean, fit_row, lay_out, make_row, wrap_text
from ostler.clients.cli.render.blocks.theme import Palette, choose_theme
from ostler.clients.cli.render.sink import OutputSink, StreamSink
from ostler.clients.cli.render.text_width import fit_width, measure_width
from ostler.clients.cli.terminal.completion import Suggest
from ostler.clients.cli.terminal.history import History
from ostler.clients.cli.terminal.input_events import EndOfInput, InputEvent, Line
from ostler.clients.cli.terminal.screen import Frame, Screen

if TYPE_CHECKING:
    from ostler.clients.cli.terminal.line_editor import LineEditor

_CHUNK: Final = 64 * 1024
_ECHO_LINES: Final = 40
_ECHO_CHARACTERS: Final = 4000
_FRAME_SECONDS: Final = 0.08
"""What streams is drawn at most so often; what is typed at once."""
_TICK_SECONDS: Final = 0.25
_RESERVED_ROWS: Final = 4
"""Rows that a text which grows leaves to what stands below it."""
_MODES_ON: Final = "\x1b[?2004h\x1b[>4;1m"
"""Pastes are marked; Shift-Enter is told apart from Enter where the terminal can."""
_MODES_OFF: Final = "\x1b[?2004l\x1b[>4;0m"


class LiveParts(Protocol):
    """What a chat shows above and below the line that is typed, as long as it lasts."""

    def take_finished(self, columns: int) -> list[Row]:
        """The rows that are finished since the last time."""
        ...

    def take_overflow(self, columns: int, most: int) -> list[Row]:
        """The first rows of what still grows, where it is higher than this."""
        ...

    def render_above(self, columns: int, rows: int) -> list[Row]:
        """The rows above the typed line: at most so many."""
        ...

    def render_status(self, columns: int) -> list[Row]:
        """The rows below it."""
        ...

    def write_line(self, text: str, colour: Colour | None = None) -> None:
        """Lines of our own, in their place among what happens."""

    @property
    def moves(self) -> bool:
        """Something in it changes by itself, as a clock."""
        ...


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

    def suspend(self) -> None:
        """Leave the terminal as it was before: the process is about to be suspended (SIGTSTP)."""

    def resume(self) -> None:
        """Continue after the process was suspended (SIGCONT)."""

    async def keep_painting(self) -> None:
        """Draw what changes by itself, for as long as this is run."""

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

    def suspend(self) -> None:
        return

    def resume(self) -> None:
        return

    async def keep_painting(self) -> None:
        return

    def on_resize(self) -> None:
        return

    async def run_program(self, command: Sequence[str]) -> int:
        raise OSError(f"{command[0]} needs a terminal")


class TerminalConsole:
    """A person at a keyboard: what is finished scrolls away, what is typed and what still changes stands below."""

    is_terminal = True

    def __init__(self, theme: str | None = None, history_file: Path | None = None, *, vi: bool = False) -> None:
        self.palette = Palette(choose_theme(theme))
        self.screen = Screen(self.palette)
        self.sink: OutputSink = _RowSink(self)
        self.parts: LiveParts | None = None
        """What the chat shows beside the typed line."""
        self.is_lent = False
        self.pressed_at = -math.inf
        self._history_file = history_file
        self._vi = vi
        self._suggest: Suggest = lambda text, cursor: ()
        self._editor: LineEditor | None = None
        self._notes: list[tuple[str, str]] = []
        """Lines of our own that are not drawn yet: the words, and their role."""
        self._prompt: str | None = None
        self._line_head = ""
        self._single_keys = self._openers = ""
        self._begun = ""
        self._before: list[Any] | None = None
        """The terminal's attributes before the chat, which other programs get."""
        self._typed_early = 0
        """Bytes that were typed before keys came as they are pressed, and are not read yet."""
        self._dirty = anyio.Event()
        self._painted_at = -math.inf

    @property
    def editor(self) -> "LineEditor":
        """The line editor; its library is imported when the first paint is over."""
        if self._editor is None:
            from ostler.clients.cli.terminal.line_editor import LineEditor

            self._editor = LineEditor(History(self._history_file), vi=self._vi)
            self._editor.menu.suggest = self._suggest
        return self._editor

    def use_suggestions(self, suggest: Suggest) -> None:
        """What the menu below the line offers from now on."""
        self._suggest = suggest
        if self._editor is not None:
            self._editor.menu.suggest = suggest

    def refresh_menu(self) -> None:
        """There may be more to offer than there was."""
        if self._editor is not None:
            self._editor.menu.update(self._editor.text, self._editor.cursor)
            self.paint()

    # Input.

    async def read_input(self) -> AsyncGenerator[InputEvent, None]:
        descriptor = sys.stdin.fileno()
        with self.take_keys():
            try:
                self._show_line_head()
                editor = self.editor
                self._apply_single_keys()
                while chunk := await _read_chunk(descriptor):
                    if (early := self._typed_early) > 0:  # the terminal had made a line's end of Enter
                        chunk = chunk[:early].replace(b"\n", b"\r") + chunk[early:]
                        self._typed_early -= len(chunk)
                    self.pressed_at = time.monotonic()
                    for one in editor.feed(chunk):
                        yield one
                    self.paint()
                    while (patience := editor.patience) is not None and not await _wait_for_more(descriptor, patience):
                        if (late := editor.take_unfinished()) is not None:
                            yield late
                        self.paint()
                yield EndOfInput()
            finally:
                self._prompt = None
                self.paint()

    @contextmanager
    def take_keys(self) -> Iterator[None]:
        """Let keys come as they are pressed, until this ends; between two sessions, too."""
        if self._before is not None:
            yield
            return
        with _enter_cbreak(sys.stdin.fileno()) as before:
            self._before = before
            self._typed_early = _count_waiting(sys.stdin.fileno())
            try:
                yield
            finally:
                self._before = None

    async def keep_painting(self) -> None:
        """Draw what changes by itself, and what streams, a few times a second; as long as this is run."""
        while True:
            moves = self.parts is not None and self.parts.moves
            with anyio.move_on_after(_TICK_SECONDS if moves else math.inf):
                await self._dirty.wait()
            self._dirty = anyio.Event()
            rest = self._painted_at + _FRAME_SECONDS - time.monotonic()
            if rest > 0:
                await anyio.sleep(rest)
            self.paint()

    def set_prompt(self, prompt: str, single_keys: str = "", openers: str = "") -> None:
        self._line_head, self._single_keys, self._openers = prompt, single_keys, openers
        if self._prompt is not None:  # a prompt says that keys are taken
            self._show_line_head()
        if self._editor is not None:
            self._apply_single_keys()

    def _show_line_head(self) -> None:
        self._prompt = self._line_head
        self.paint()

    def _apply_single_keys(self) -> None:
        self.editor.single_keys = frozenset(self._single_keys)
        self.editor.openers = frozenset(f"/{self._openers}" if self._single_keys else "")

    def fill(self, text: str) -> None:
        self.editor.fill(text)
        self.paint()

    def take_draft(self) -> str:
        text = self.editor.take_draft() if self._editor is not None else ""
        self.paint()
        return text

    def add_to_history(self, line: str) -> None:
        self.editor.add_to_history(line)

    def echo(self, text: str) -> None:
        self.write_note(f"{self._prompt or ''}{_shorten_echo(text)}", "typed")

    # Output.

    def write_note(self, text: str, role: str = "") -> None:
        """Write lines of our own into the scrollback."""
        self._notes.append((text, role))
        self.paint()

    def request_paint(self) -> None:
        """Something has changed: draw it with the next frame; at once where nobody draws frames."""
        if self._prompt is None:
            self.paint()
        else:
            self._dirty.set()

    def paint(self) -> None:
        """Draw what there is now."""
        if self.is_lent:
            return
        self._painted_at = time.monotonic()
        self.screen.paint(self._build_frame())

    def clear(self) -> None:
        """Draw everything on an empty screen."""
        self.screen.clear(self._build_frame())

    def _build_frame(self) -> Frame:
        size = self.screen.measure()
        columns = size.columns - 1
        finished: list[Row] = []
        if self.parts is not None:
            finished += self.parts.take_finished(columns)
        notes, self._notes = self._notes, []
        finished += [row for text, role in notes for row in wrap_text(text, columns, role)]
        if self._prompt is None:
            return Frame(finished, [()], (0, 0))
        typed, row, column = self._render_typed(columns, max(1, size.lines // 3))
        below = self._render_below(columns)
        room = size.lines - 1 - len(typed) - len(below)
        if self.parts is not None:
            finished += self.parts.take_overflow(columns, max(1, room - _RESERVED_ROWS))
        above = self.parts.render_above(columns, max(0, room)) if self.parts is not None else []
        above = above[max(0, len(above) - max(0, room)) :]
        below = below[: max(0, size.lines - 1 - len(typed))]
        return Frame(finished, [*above, *typed, *below], (len(above) + row, column))

    def _render_typed(self, columns: int, most: int) -> tuple[list[Row], int, int]:
        """The typed lines behind the prompt, and where the cursor stands in them."""
        editor = self._editor
        prompt = self._prompt or ""
        if editor is not None and editor.search is not None:
            found = editor.search.found or ""
            prompt, text, cursor = f"search {editor.search.query!r}: ", found.replace("\n", " ⏎ "), 0
        else:
            text, cursor = (editor.text, editor.cursor) if editor is not None else ("", 0)
        prompt = fit_width(prompt, max(0, columns - 2))
        margin = measure_width(prompt)
        text, cursor = _cut_to_window(text, cursor, 4 * columns * most)
        lines, row, column = lay_out(text, max(1, columns - margin), cursor)
        first = max(0, min(row - most + 1, len(lines) - most), min(row, len(lines) - most))
        first = min(first, row)
        shown = lines[first : first + most]
        rows = [
            make_row((prompt if at == 0 else " " * margin, "bold" if at == 0 else ""), (line, ""))
            for at, line in enumerate(shown)
        ]
        return rows, row - first, margin + column

    def _render_below(self, columns: int) -> list[Row]:
        editor = self._editor
        if editor is not None and editor.menu.is_open and editor.search is None:
            return _render_menu(editor, columns)
        return self.parts.render_status(columns) if self.parts is not None else []

    # The terminal itself.

    async def run_program(self, command: Sequence[str]) -> int:
        return await self.lend(lambda: _run_program(command))

    async def lend(self, work: Callable[[], Any]) -> int:
        """Lend the terminal out until this is done."""
        descriptor = sys.stdin.fileno()
        ours = termios.tcgetattr(descriptor)
        self.screen.hold()
        self.is_lent = True
        try:
            sys.stdout.write(_MODES_OFF)
            sys.stdout.flush()
            if self._before is not None:
                termios.tcsetattr(descriptor, termios.TCSADRAIN, self._before)
            return int(await work())
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, ours)
            sys.stdout.write(_MODES_ON)
            self.is_lent = False
            self.screen.release()
            self.paint()

    def suspend(self) -> None:
        if self.is_lent or self._before is None:
            return
        self.screen.hold()
        sys.stdout.write(_MODES_OFF)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def resume(self) -> None:
        if self.is_lent or self._before is None:
            return
        _set_cbreak(sys.stdin.fileno())
        # What was typed meanwhile was shown by the terminal itself: the row begins anew.
        sys.stdout.write(f"{_MODES_ON}\r\x1b[J")
        self.screen.release()
        self.paint()

    def on_resize(self) -> None:
        if not self.is_lent:
            self.paint()


class _RowSink:
    """What still writes text piece by piece: each whole line becomes rows."""

    def __init__(self, console: TerminalConsole) -> None:
        self._console = console
        self._line = ""
        self._role = ""

    def write_text(self, text: str, colour: Colour | None = None) -> None:
        self.write_note(text, colour)

    def write_note(self, text: str, colour: Colour | None = None) -> None:
        if colour is not None and not self._line:
            self._role = colour
        *lines, self._line = f"{self._line}{text}".split("\n")
        for line in lines:
            self._console.write_note(line, self._role)
        if lines:
            self._role = ""

    def show_status(self, text: str) -> None:
        return

    def end_line(self) -> None:
        if self._line:
            self.write_note("\n")


def open_console(history_file: Path | None, looks: Mapping[str, Any]) -> Console:
    """The console that fits: nothing is redrawn where the terminal cannot, or where somebody has it read aloud."""
    draws = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not draws or looks["screen_reader"]:
        return PipeConsole()
    return TerminalConsole(looks["theme"], history_file, vi=looks["vi"])


def _render_menu(editor: "LineEditor", columns: int) -> list[Row]:
    first, shown = editor.menu.shown
    width = min(max(measure_width(clean(one.text)) for one in shown), max(8, columns // 2))
    rows: list[Row] = []
    for at, one in enumerate(shown, start=first):
        text = fit_row([Run(clean(one.text).rstrip())], width)
        pad = " " * max(0, width - sum(measure_width(run.text) for run in text))
        role = "selected" if at == editor.menu.at else ""
        rows.append(
            make_row(("  ", ""), *(run._replace(role=role) for run in text), (f"{pad}  ", ""), (one.help, "dim"))
        )
    more = len(editor.menu.suggestions) - len(shown)
    if more > 0:
        rows.append(make_row((f"  {more} more", "dim")))
    return rows


def _cut_to_window(text: str, cursor: int, most: int) -> tuple[str, int]:
    """The part of what is typed that can be seen: all of a very long line need not be laid out for each key."""
    if len(text) <= most:
        return text, cursor
    begin = max(0, cursor - most // 2)
    return text[begin : begin + most], cursor - begin


def _shorten_echo(text: str) -> str:
    """What was sent, and of a long paste only the beginning: the rest is known."""
    lines = text[:_ECHO_CHARACTERS].split("\n")[:_ECHO_LINES]
    left = len(text) - len("\n".join(lines))
    return "\n".join(lines) + (f"… ({format_count(left, 'character')} more)" if left else "")


async def _run_program(command: Sequence[str]) -> int:
    async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None) as process:
        return await process.wait()


async def _wait_for_more(descriptor: int, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        await anyio.wait_readable(descriptor)
        return True
    return False


async def _read_chunk(descriptor: int) -> bytes:
    with suppress(PermissionError):  # a plain file, which can always be read
        await anyio.wait_readable(descriptor)
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # how Linux says that the terminal is closed
        return b""


def _count_waiting(descriptor: int) -> int:
    """How many bytes were typed that nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def _set_cbreak(descriptor: int) -> None:
    """Keys come as they are pressed and are not shown by the terminal; Ctrl-C and Ctrl-Z stay signals.

    Enter and Ctrl-J are two keys, and Ctrl-S, Ctrl-Q, Ctrl-O and Ctrl-V are keys at all.
    """
    tty.setcbreak(descriptor, termios.TCSADRAIN)
    mode = termios.tcgetattr(descriptor)
    mode[tty.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
    mode[tty.LFLAG] &= ~termios.IEXTEN
    termios.tcsetattr(descriptor, termios.TCSADRAIN, mode)


@contextmanager
def _enter_cbreak(descriptor: int) -> Iterator[list[Any]]:
    before = termios.tcgetattr(descriptor)
    _set_cbreak(descriptor)
    sys.stdout.write(_MODES_ON)
    try:
        yield before
    finally:
        with suppress(OSError):
            sys.stdout.write(_MODES_OFF)
            sys.stdout.flush()
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
