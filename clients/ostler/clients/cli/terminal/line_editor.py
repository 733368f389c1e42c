"""The line editor: the lines being typed, out of the bytes that a terminal sends.

prompt_toolkit edits: its keys of Emacs and vi, undo, the clipboard. It draws nothing and reads nothing: the screen and
the console do that, so that output above and input below go out together.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from ostler.clients.cli.output import format_count
from ostler.clients.cli.terminal.completion import CompletionMenu
from ostler.clients.cli.terminal.history import History, Search
from ostler.clients.cli.terminal.input_events import EndOfInput, Escape, InputEvent, Line, Shortcut, StrayKeys
from ostler.clients.cli.terminal.keys import SHORTCUTS
from ostler.clients.cli.terminal.sequences import ESCAPE, PASTE_START, SequenceReader, strip_paste

_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What changes the order in which a line is read."""
_NEW_LINES: Final = frozenset({"\n", "\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;3u"})
"""Ctrl-J, Alt-Enter, and Shift-Enter in the ways in which terminals tell it."""
_UP: Final = frozenset({"\x1b[A", "\x1bOA"})
_DOWN: Final = frozenset({"\x1b[B", "\x1bOB"})
_PASTED_LINES: Final = 8
_PASTED_CHARACTERS: Final = 800
"""A paste that is longer is named in the line, and not shown."""
_IGNORED_KEYS: Final = frozenset({"\t", "\x1a", "\x13", "\x11", "\x1b[I", "\x1b[O"})


class LineEditor:
    """What was typed so far and not sent yet."""

    def __init__(self, history: History | None = None, *, vi: bool = False) -> None:
        self.history = history or History()
        self.menu = CompletionMenu()
        self.search: Search | None = None
        """What Ctrl-R looks for, while it does."""
        self.single_keys: frozenset[str] = frozenset()
        """Keys that count without Enter while nothing else was typed; in either case."""
        self.openers: frozenset[str] = frozenset()
        """Where there are such keys: the other ones that begin a line."""
        self.has_waiting = False
        """Words that were sent wait for the agent: ↑ on an empty line takes them back."""
        self._pastes: dict[str, str] = {}
        """What stands for a long paste in the line, and the paste."""
        self._reader = SequenceReader()
        self._buffer = Buffer(multiline=True)
        self._app: Application[None] = Application(
            layout=Layout(Window(BufferControl(self._buffer))),
            input=DummyInput(),
            output=DummyOutput(),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
        )
        # Nothing is waited for in the background: whether more of a key follows is for the console to find out.
        self._app.timeoutlen = None  # type: ignore[assignment]  # its documentation allows it
        self._parser = Vt100Parser(self._app.key_processor.feed)

    # What there is.

    @property
    def text(self) -> str:
        return self._buffer.text

    @property
    def cursor(self) -> int:
        return self._buffer.cursor_position

    @property
    def vi(self) -> bool:
        return self._app.editing_mode is EditingMode.VI

    @vi.setter
    def vi(self, wanted: bool) -> None:
        self._app.editing_mode = EditingMode.VI if wanted else EditingMode.EMACS
        self._app.vi_state.input_mode = InputMode.INSERT

    @property
    def vi_mode(self) -> str:
        """The mode of vi, for the status line."""
        if not self.vi:
            return ""
        return "INSERT" if self._app.vi_state.input_mode in {InputMode.INSERT, InputMode.REPLACE} else "NORMAL"

    @property
    def patience(self) -> float | None:
        """How long to wait for the rest of a key; None where nothing has begun."""
        return self._reader.patience

    # What others do with it.

    def fill(self, text: str) -> None:
        """Begin with this text instead of with nothing."""
        self._buffer.save_to_undo_stack()
        self._buffer.document = Document(text, len(text))
        self.menu.close()

    def take_draft(self) -> str:
        """Empty the line; what there was, with what was pasted into it."""
        line = self._expand_pastes(self.text)
        self.search = None
        self._buffer.reset(Document("", 0))
        self._app.vi_state.input_mode = InputMode.INSERT
        self._pastes.clear()
        self.history.leave()
        self.menu.close()
        return line

    def add_to_history(self, line: str) -> None:
        """Add a line to the history, from which the arrow keys bring it back."""
        self.history.add(line)

    # Keys.

    def feed(self, data: bytes) -> Iterator[InputEvent]:
        """What these bytes complete; a sequence or a paste may come in pieces.

        One after the other: what a key means may be another thing once the one before it was taken.
        """
        self._reader.feed(data)
        for piece in self._reader.read_pieces():
            done = self._apply_piece(piece)
            if done is not None:
                yield done

    def take_unfinished(self) -> InputEvent | None:
        """The rest of a key did not come: Esc was the key."""
        rest = self._reader.take_unfinished()
        return self._apply_piece(rest) if rest else None

    def _apply_piece(self, piece: str) -> InputEvent | None:
        if piece.startswith(PASTE_START):
            self._paste(strip_paste(piece))
            return None
        if self.search is not None:
            if self._apply_to_search(piece):
                return None
        elif self.menu.is_open and self._apply_to_menu(piece):
            return None
        return self._apply_key(piece)

    def _apply_key(self, piece: str) -> InputEvent | None:
        if piece == "\r":
            return self._enter()
        if piece in _NEW_LINES:
            if not self.single_keys or self.text:
                self._insert("\n")
            return None
        if piece == ESCAPE:
            return self._escape()
        if piece == "\x04" and not self.text:
            return EndOfInput()
        if piece in _UP | _DOWN:
            return self._apply_arrow(up=piece in _UP)
        if piece == "\x12":
            self.search = Search(self.history)
            return None
        if self.text == "" and piece[0].lower() in self.single_keys:
            self._reader.unread(piece[1:])
            return Line(piece[0])
        if piece in SHORTCUTS and (piece != "?" or not self.text):
            return Shortcut(SHORTCUTS[piece])
        if piece not in _IGNORED_KEYS:
            if piece[0] >= " " and piece[0] != "\x7f":
                return self._apply_text(piece)
            self._apply_control(piece)
        return None

    def _apply_text(self, piece: str) -> InputEvent | None:
        text = "".join(char for char in piece if is_text(char))
        if text and self.single_keys and not self.text and text[0].lower() not in self.openers:
            return StrayKeys(text)
        if self.vi_mode == "NORMAL":
            self._process(text)
        else:
            self._insert(text)
        return None

    def _apply_control(self, piece: str) -> None:
        """A key of the editor's; what prompt_toolkit does not know is a report that nobody asked for."""
        if piece.startswith(ESCAPE) and piece not in ANSI_SEQUENCES and len(piece) > 2:
            return
        self._process(piece)
        self.menu.update(self.text, self.cursor)

    def _process(self, piece: str) -> None:
        with set_app(self._app):
            if piece == ESCAPE:
                self._app.key_processor.feed(KeyPress(Keys.Escape, ESCAPE))
            else:
                self._parser.feed(piece)
            self._app.key_processor.process_keys()

    def _escape(self) -> InputEvent | None:
        if self.vi_mode == "INSERT" and self.text:
            self._process(ESCAPE)
            with set_app(self._app):
                self._app.key_processor.feed(KeyPress(Keys.Escape, ESCAPE), first=False)
                self._app.key_processor.process_keys()
            self._app.vi_state.input_mode = InputMode.NAVIGATION
            return None
        return Escape()

    def _apply_arrow(self, *, up: bool) -> InputEvent | None:
        document = self._buffer.document
        if up and not self.text and self.has_waiting:
            return Shortcut("/unsteer")
        if up and document.cursor_position_row > 0:
            self._buffer.cursor_up()
        elif not up and document.cursor_position_row < document.line_count - 1:
            self._buffer.cursor_down()
        else:
            self._recall(self.history.older(self.text) if up else self.history.newer())
        return None

    def _recall(self, line: str | None) -> None:
        if line is not None:
            self.fill(line)

    def _enter(self) -> InputEvent | None:
        before = self.text[: self.cursor]
        if before.endswith("\\") and not self.single_keys:
            self._buffer.delete_before_cursor()
            self._insert("\n")
            return None
        shown = self.text
        line = self.take_draft()
        self.add_to_history(line)
        return Line(line, shown if shown != line else None)

    def _insert(self, text: str) -> None:
        if text:
            self._buffer.save_to_undo_stack()
            self._buffer.insert_text(text)
            self.menu.update(self.text, self.cursor)

    def _paste(self, text: str) -> None:
        if self.search is not None:
            self.search = None
        lines = text.count("\n") + 1
        if lines > _PASTED_LINES or len(text) > _PASTED_CHARACTERS:
            how_long = format_count(lines, "line") if lines > 1 else format_count(len(text), "character")
            name = f"[pasted {len(self._pastes) + 1}: {how_long}]"
            self._pastes[name] = text
            text = name
        self._buffer.save_to_undo_stack()
        self._buffer.insert_text(text)
        self.menu.close()

    def _expand_pastes(self, text: str) -> str:
        for name, pasted in self._pastes.items():
            text = text.replace(name, pasted)
        return text

    # Suggestions.

    def _apply_to_menu(self, piece: str) -> bool:
        if piece in _UP | _DOWN:
            self.menu.move(-1 if piece in _UP else 1)
        elif piece == "\t" or (piece == "\r" and self.menu.takes_enter(self.text)):
            self._accept_suggestion()
        elif piece == ESCAPE:
            self.menu.dismiss(self.text)
        else:
            return False
        return True

    def _accept_suggestion(self) -> None:
        chosen = self.menu.chosen
        if chosen is None:
            return
        text = f"{self.text[: chosen.start]}{chosen.text}{self.text[self.cursor :]}"
        self._buffer.save_to_undo_stack()
        self._buffer.document = Document(text, chosen.start + len(chosen.text))
        if chosen.text.endswith("/"):
            self.menu.update(self.text, self.cursor)
        else:
            self.menu.close()

    # Searching in what was sent before.

    def _apply_to_search(self, piece: str) -> bool:
        """Whether it was for the search; any other key takes what was found."""
        search = self.search
        assert search is not None
        if piece == "\x12":
            search.find_older()
        elif piece in {"\x7f", "\x08"}:
            search.look_for(search.query[:-1])
        elif piece in {ESCAPE, "\x07"}:
            self.search = None
        elif piece[0] >= " " and piece[0] != "\x7f":
            search.look_for(search.query + "".join(char for char in piece if is_text(char)))
        else:
            self.search = None
            if search.found is not None:
                self.fill(search.found)
            return piece == "\r"
        return True


def is_text(char: str) -> bool:
    """Letters, blanks and joiners of every script; nothing that steers a terminal or turns a line around."""
    return unicodedata.category(char) not in {"Cc", "Cs"} and char not in _BIDI
