"""The line editor and the screen: typed input and printed output, as they stand on a terminal."""

import io
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.cli.output import sanitize
from ostler.clients.cli.terminal import screen as screen_module
from ostler.clients.cli.terminal.line_editor import EndOfInput, Escape, InputEvent, Line, LineEditor, StrayKeys
from ostler.clients.cli.terminal.screen import Screen
from tests.support.tables import try_each

COLUMNS = 20
PASTED = 200_000
SECONDS = 5.0
"""A paste took minutes; this is far more than it takes on a slow machine."""
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
                self._apply_sequence(found[2], int(found[1] or "0"))
                at = found.end()
            else:
                self._put_char(text[at])
                at += 1

    def _apply_sequence(self, kind: str, count: int) -> None:
        if kind == "A":
            assert count <= self.row
            self.row -= count
        elif kind == "C":
            self.column += count
        elif kind == "J":
            self.rows = [*self.rows[: self.row], self.rows[self.row][: self.column]]

    def _put_char(self, char: str) -> None:
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
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_module, "_columns", lambda: COLUMNS)


class ScreenHarness:
    """A line editor and its screen, which draws into a string."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.editor = LineEditor()
        self.screen = Screen(self.editor, self.stream)

    def render_display(self) -> Display:
        shown = Display()
        shown.feed(self.stream.getvalue())
        return shown

    def press(self, keys: str) -> list[InputEvent]:
        typed = list(self.editor.feed(keys.encode()))
        self.screen.redraw()
        return typed


def test_what_is_told_stands_above_what_is_typed() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.press("ab")
    terminal.screen.write_text("one\ntwo")
    assert terminal.render_display().rows == ["one", "two", "> ab"]
    terminal.screen.write_text(" three")
    terminal.press("c")
    assert terminal.render_display().rows == ["one", "two three", "> abc"]
    assert terminal.render_display().typed == ("> abc", 5)


def test_a_long_line_is_cut_between_words() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    for piece in ("a brown fox ju", "mps over ", "the dog"):
        terminal.screen.write_text(piece)
    assert terminal.render_display().rows == ["a brown fox jumps", "over the dog", "> "]


def test_a_word_longer_than_the_row_is_cut_anywhere() -> None:
    terminal = ScreenHarness()
    terminal.screen.write_text("x" * 50)
    assert "".join(terminal.render_display().rows) == "x" * 50


def test_a_long_input_shows_the_part_around_the_cursor() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.press("abcdefghijklmnopqrstuvwxyz")
    assert terminal.render_display().typed[0].endswith("z")
    terminal.press("\x01")
    assert terminal.render_display().typed == ("> abcdefghijklmnopq", 2)


def test_a_long_paste_is_drawn_and_told_without_measuring_it_again_and_again() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    began = time.monotonic()
    terminal.press("\x1b[200~" + "ab cd\n" * (PASTED // 6) + "\x1b[201~")
    for _ in range(5):
        terminal.press("x")
    assert terminal.render_display().typed[0].endswith("ab cd⏎xxxxx")
    terminal.press("\x15" + "y" * PASTED)
    terminal.screen.write_text("z" * PASTED)
    assert time.monotonic() - began < SECONDS


def test_what_stands_before_a_line_stays_clear_on_its_further_rows() -> None:
    terminal = ScreenHarness()
    terminal.screen.write_text("  │ one two three four five\n    six seven eight nine\n")
    assert terminal.render_display().rows == [
        "  │ one two three",
        "    four five",
        "    six seven eight",
        "    nine",
        "",
    ]


def test_a_line_that_just_fits_leaves_no_empty_row() -> None:
    terminal = ScreenHarness()
    terminal.screen.write_text("x" * 19 + " \n")
    terminal.screen.write_text("next\n")
    assert terminal.render_display().rows == ["x" * 19, "next", ""]


def test_what_passes_stands_at_the_end_of_the_line_until_something_else_does() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.screen.write_note("● make …")
    terminal.screen.show_status(" 3 s  compiling everything")
    assert terminal.render_display().rows == ["● make … 3 s  compi", "> "]
    terminal.press("a")
    terminal.screen.show_status(" 4 s\x1b[2J")
    assert terminal.render_display().rows == ["● make … 4 s\\x1b[2J", "> a"]
    terminal.screen.write_note(" ✓\n")
    assert terminal.render_display().rows == ["● make … ✓", "> a"]


def test_a_terminal_that_became_narrower_is_drawn_from_the_first_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.screen.write_text("told in eighteen c")
    terminal.press("typed in a row")
    terminal.stream.truncate(0)
    monkeypatch.setattr(screen_module, "_columns", lambda: 10)
    terminal.screen.redraw()
    # The terminal has made two rows of each, and the cursor stands in the last of the four.
    assert terminal.stream.getvalue().lstrip("\0").startswith("\r\x1b[3A\x1b[J")


def test_nothing_that_is_told_or_pasted_can_steer_the_terminal() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.screen.write_text("a\x1b[2Jb\a\rc\n")
    terminal.press("\x1b[200~x\x1b[31my\x1b[201~")
    assert terminal.render_display().rows[-1].startswith("> x\\x1b[31my")


def test_leaving_takes_the_prompt_away() -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    terminal.screen.write_text("told\n")
    terminal.screen.set_prompt(None)
    assert terminal.render_display().rows == ["told", ""]


@given(st.lists(st.one_of(st.text("ab \n", max_size=30), st.sampled_from(["\x7f", "\x01", "\x05", "\x15", "\x17"]))))
def test_no_letter_is_lost_whatever_is_told_and_typed(steps: list[str]) -> None:
    terminal = ScreenHarness()
    terminal.screen.set_prompt("> ")
    told = ""
    for step in steps:
        if step and step.isprintable():
            terminal.press(step)
        else:
            terminal.screen.write_text(step if not step or step[0] in "ab \n" else "")
            told += step if not step or step[0] in "ab \n" else ""
            terminal.press(step if step and step[0] not in "ab \n" else "")
    rows = terminal.render_display().rows
    assert rows[-1].startswith("> ")
    assert "".join(rows[:-1]).replace(" ", "") == told.replace("\n", "").replace(" ", "")


@try_each(
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
        ("a\u3000b\u00a0c", "a\u3000b\u00a0c"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\u202eb\u2066c\x9bd", "abcd"),
    ],
)
def test_keys_edit_the_line(keys: str, text: str) -> None:
    editor = LineEditor()
    assert list(editor.feed(keys.encode())) == []
    assert editor.text == text


def test_keys_may_come_in_any_pieces() -> None:
    editor = LineEditor()
    data = "ä\x1b[D€\x1b[200~x\ny\x1b[201~".encode()
    for byte in data:
        list(editor.feed(bytes([byte])))
    assert editor.text == "€x\nyä"


def test_enter_gives_the_line_and_arrows_bring_it_back() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"one\rtwo\r")) == [Line("one"), Line("two")]
    list(editor.feed(b"\x1b[A\x1b[A"))
    assert editor.text == "one"
    list(editor.feed(b"\x1b[B"))
    assert editor.text == "two"
    list(editor.feed(b"\x1b[B"))
    assert editor.text == ""


def test_a_single_key_counts_only_while_nothing_is_typed() -> None:
    editor = LineEditor()
    editor.single_keys, editor.openers = frozenset("yn"), frozenset("/c")
    assert list(editor.feed(b"y")) == [Line("y")]
    assert list(editor.feed(b"Y")) == [Line("Y")]
    assert list(editor.feed(b"cyn\x15/yn")) == []
    assert editor.text == "/yn"


def test_keys_that_mean_nothing_are_told_and_not_taken_into_the_line() -> None:
    editor = LineEditor()
    editor.single_keys, editor.openers = frozenset("yn"), frozenset("/")
    assert list(editor.feed("qé ".encode())) == [StrayKeys("qé ")]
    assert list(editor.feed(b"hello yn")) == [StrayKeys("hello yn")]
    assert (editor.text, list(editor.feed(b"\x7f\t\x1b[A"))) == ("", [])
    assert list(editor.feed(b"\x1b[200~words\x1b[201~")) == []
    assert editor.text == "words", "a paste is no key"


def test_ctrl_d_leaves_only_while_nothing_is_typed() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"a\x04")) == []
    assert list(editor.feed(b"\x7f\x04")) == [EndOfInput()]


def test_an_arrow_up_and_down_gives_the_half_typed_line_back() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"one\rhalf\x1b[A")) == [Line("one")]
    assert editor.text == "one"
    list(editor.feed(b"\x1b[B"))
    assert editor.text == "half"


def test_an_escape_waits_for_the_rest_of_a_key_and_is_one_by_itself() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"ab\x1b")) == []
    assert editor.has_escape
    list(editor.feed(b"[DX"))
    assert (editor.text, editor.has_escape) == ("aXb", False)
    list(editor.feed(b"\x1b"))
    assert editor.take_escape() == Escape()
    list(editor.feed(b"y"))
    assert editor.text == "aXyb"


def test_what_a_key_means_is_known_only_after_the_one_before_it() -> None:
    editor = LineEditor()
    editor.single_keys = frozenset("y")
    keys = editor.feed(b"yy")
    assert next(keys) == Line("y")
    editor.single_keys = frozenset()
    assert list(keys) == []
    assert editor.text == "y"


@try_each(
    ("text", "shown"),
    [
        ("👩\u200d💻 👩🏽\u200d🔬", "👩\u200d💻 👩🏽\u200d🔬"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("rm\u200d -rf", "rm\\u200d -rf"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("\u200d", "\\u200d"),
    ],
)
def test_a_joiner_is_shown_where_it_belongs_and_spelled_where_it_hides(text: str, shown: str) -> None:
    assert sanitize(text) == shown
