"""The line that is typed and the lines that are told, as they stand on a terminal."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.cli import screen as screen_module
from ostler.clients.cli.editor import Leave, Line, LineEditor
from ostler.clients.cli.screen import Screen

COLUMNS = 20
_SEQUENCE = re.compile(r"\x1b\[(\d*)([ACJm])")


class Display:
    """As much of a terminal as we use: it fails on anything else."""

    def __init__(self) -> None:
        self.rows = [""]
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found:
                self._sequence(found[2], int(found[1] or "0"))
                at = found.end()
            else:
                self._char(text[at])
                at += 1

    def _sequence(self, kind: str, count: int) -> None:
        if kind == "A":
            assert count <= self.row
            self.row -= count
        elif kind == "C":
            self.column += count
        elif kind == "J":
            self.rows = [*self.rows[: self.row], self.rows[self.row][: self.column]]

    def _char(self, char: str) -> None:
        if char == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.rows):
                self.rows.append("")
        elif char == "\r":
            self.column = 0
        else:
            assert char.isprintable(), repr(char)
            assert self.column < COLUMNS, "a row must never wrap by itself"
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    @property
    def typed(self) -> tuple[str, int]:
        return self.rows[self.row], self.column


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_module, "_columns", lambda: COLUMNS)


class Seat:
    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.editor = LineEditor()
        self.screen = Screen(self.editor, self.stream)

    def display(self) -> Display:
        shown = Display()
        shown.feed(self.stream.getvalue())
        return shown

    def press(self, keys: str) -> list[Line | Leave]:
        typed = self.editor.feed(keys.encode())
        self.screen.redraw()
        return typed


def test_what_is_told_stands_above_what_is_typed() -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    seat.press("ab")
    seat.screen.words("one\ntwo")
    assert seat.display().rows == ["one", "two", "> ab"]
    seat.screen.words(" three")
    seat.press("c")
    assert seat.display().rows == ["one", "two three", "> abc"]
    assert seat.display().typed == ("> abc", 5)


def test_a_long_line_is_cut_between_words() -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    for piece in ("a brown fox ju", "mps over ", "the dog"):
        seat.screen.words(piece)
    assert seat.display().rows == ["a brown fox jumps", "over the dog", "> "]


def test_a_word_longer_than_the_row_is_cut_anywhere() -> None:
    seat = Seat()
    seat.screen.words("x" * 50)
    assert "".join(seat.display().rows) == "x" * 50


def test_a_long_input_shows_the_part_around_the_cursor() -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    seat.press("abcdefghijklmnopqrstuvwxyz")
    assert seat.display().typed[0].endswith("z")
    seat.press("\x01")
    assert seat.display().typed == ("> abcdefghijklmnopq", 2)


def test_nothing_that_is_told_or_pasted_can_steer_the_terminal() -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    seat.screen.words("a\x1b[2Jb\a\rc\n")
    seat.press("\x1b[200~x\x1b[31my\x1b[201~")
    assert seat.display().rows[-1].startswith("> x\\x1b[31my")


def test_leaving_takes_the_prompt_away() -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    seat.screen.words("told\n")
    seat.screen.ask_for(None)
    assert seat.display().rows == ["told", ""]


@given(st.lists(st.one_of(st.text("ab \n", max_size=30), st.sampled_from(["\x7f", "\x01", "\x05", "\x15", "\x17"]))))
def test_no_letter_is_lost_whatever_is_told_and_typed(steps: list[str]) -> None:
    seat = Seat()
    seat.screen.ask_for("> ")
    told = ""
    for step in steps:
        if step and step.isprintable():
            seat.press(step)
        else:
            seat.screen.words(step if not step or step[0] in "ab \n" else "")
            told += step if not step or step[0] in "ab \n" else ""
            seat.press(step if step and step[0] not in "ab \n" else "")
    rows = seat.display().rows
    assert rows[-1].startswith("> ")
    assert "".join(rows[:-1]).replace(" ", "") == told.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("abc\x7f", "ab"),
        ("abc\x1b[D\x1b[DX", "aXbc"),
        ("abc\x01X\x05Y", "XabcY"),
        ("one two\x17", "one "),
        ("abc\x1b[D\x0b", "ab"),
        ("abc\x15d", "d"),
        ("ac\x1b[Db\x1b[3~", "ab"),
        ("a\x1b[200~b\r\nc\x1b[201~d", "ab\ncd"),
        ("\x1bOHä\x1b[5~€", "ä€"),
        ("a\tb\x00", "ab"),
    ],
)
def test_keys_edit_the_line(keys: str, text: str) -> None:
    editor = LineEditor()
    assert editor.feed(keys.encode()) == []
    assert editor.text == text


def test_keys_may_come_in_any_pieces() -> None:
    editor = LineEditor()
    data = "ä\x1b[D€\x1b[200~x\ny\x1b[201~".encode()
    for byte in data:
        editor.feed(bytes([byte]))
    assert editor.text == "€x\nyä"


def test_enter_gives_the_line_and_arrows_bring_it_back() -> None:
    editor = LineEditor()
    assert editor.feed(b"one\rtwo\r") == [Line("one"), Line("two")]
    editor.feed(b"\x1b[A\x1b[A")
    assert editor.text == "one"
    editor.feed(b"\x1b[B")
    assert editor.text == "two"
    editor.feed(b"\x1b[B")
    assert editor.text == ""


def test_a_single_key_counts_only_while_nothing_is_typed() -> None:
    editor = LineEditor()
    editor.single_keys = frozenset("yn")
    assert editor.feed(b"y") == [Line("y")]
    assert editor.feed(b"oyn") == []
    assert editor.text == "oyn"


def test_ctrl_d_leaves_only_while_nothing_is_typed() -> None:
    editor = LineEditor()
    assert editor.feed(b"a\x04") == []
    assert editor.feed(b"\x7f\x04") == [Leave()]
