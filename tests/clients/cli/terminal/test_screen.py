"""The screen: what is finished and what is live, as they stand on a terminal, and how much is written for it."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.cli.render.blocks.rows import Row, lay_out, make_row, wrap_text
from ostler.clients.cli.render.blocks.theme import Palette
from ostler.clients.cli.terminal import screen as screen_module
from ostler.clients.cli.terminal.screen import Frame, Screen, Size
from tests.clients.cli.terminal.display import Display
from tests.support.tables import try_each

COLUMNS, LINES = 20, 8
_ROWS = st.lists(st.text("ab ", max_size=15).map(str.rstrip), max_size=6)


class Harness:
    """A screen that draws into a string, and the display that shows it."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.screen = Screen(Palette(), self.stream)
        self.display = Display(COLUMNS, LINES)

    def paint(self, finished: list[str], live: list[str], cursor: tuple[int, int] = (0, 0)) -> str:
        begin = self.stream.tell()
        self.screen.paint(Frame(to_rows(finished), to_rows(live), cursor))
        written = self.stream.getvalue()[begin:]
        self.display.feed(written)
        return written


def to_rows(texts: list[str]) -> list[Row]:
    return [make_row((text, "")) for text in texts]


def to_texts(rows: list[Row]) -> list[str]:
    return ["".join(run.text for run in row) for row in rows]


def drop_empty_end(rows: list[str]) -> list[str]:
    return [row for at, row in enumerate(rows) if any(rows[at:])]


@pytest.fixture(autouse=True)
def small_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_module, "measure_terminal", lambda stream: Size(COLUMNS, LINES))


def test_what_is_finished_scrolls_away_and_what_is_live_stays_below() -> None:
    harness = Harness()
    harness.paint(["one"], ["status", "> typed"], (1, 7))
    harness.paint([f"line {number}" for number in range(20)], ["status", "> typed"], (1, 7))
    assert harness.display.rows == ["one", *(f"line {number}" for number in range(20)), "status", "> typed"]
    assert harness.display.cursor == (22, 7)


def test_what_was_live_and_is_finished_is_not_written_again() -> None:
    harness = Harness()
    harness.paint([], ["the growing text", "> "], (1, 2))
    written = harness.paint(["the growing text"], ["> "], (0, 2))
    assert written == ""
    assert harness.display.rows == ["the growing text", ">"]


def test_only_the_part_of_a_row_that_differs_is_written() -> None:
    harness = Harness()
    harness.paint([], ["one two", "> "], (1, 2))
    assert harness.paint([], ["one two three", "> "], (1, 2)) == "\x1b[1A\x1b[8G three\x1b[1B\x1b[3G"
    assert harness.paint([], ["one twa three", "> "], (1, 2)) == "\x1b[1A\x1b[7Ga\x1b[1B\x1b[3G"


def test_a_row_that_is_inserted_moves_those_below_without_writing_them_again() -> None:
    harness = Harness()
    harness.paint([], ["text", "a long status row", "> typed"], (2, 7))
    written = harness.paint([], ["text", "more", "a long status row", "> typed"], (3, 7))
    assert "status" not in written
    assert harness.display.rows == ["text", "more", "a long status row", "> typed"]
    written = harness.paint([], ["text", "a long status row", "> typed"], (2, 7))
    assert "status" not in written
    assert harness.display.rows == ["text", "a long status row", "> typed"]


def test_a_change_of_several_rows_is_one_flush_that_the_terminal_shows_at_once() -> None:
    harness = Harness()
    written = harness.paint(["one", "two"], ["> "], (0, 2))
    assert written.startswith("\x1b[?2026h")
    assert written.endswith("\x1b[?2026l")


def test_live_rows_never_outgrow_the_screen() -> None:
    harness = Harness()
    harness.paint([], [str(number) for number in range(50)], (49, 1))
    assert harness.display.rows == [str(number) for number in range(50)][-LINES + 1 :]


def test_a_terminal_that_became_narrower_is_drawn_from_the_first_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    harness.paint([], ["told in eighteen c", "> typed in a row"], (1, 16))
    begin = harness.stream.tell()
    monkeypatch.setattr(screen_module, "measure_terminal", lambda stream: Size(10, LINES))
    harness.screen.paint(Frame([], to_rows(["told"]), (0, 4)))
    # The terminal has made two rows of each, and the cursor stands in the last of the four.
    assert harness.stream.getvalue()[begin:].startswith("\x1b[?2026h\x1b[3A\r\x1b[J")


def test_wide_characters_are_written_with_their_row() -> None:
    harness = Harness()
    harness.paint([], ["日本", "> "], (1, 2))
    harness.paint([], ["日本語", "> "], (1, 2))
    harness.paint([], ["日", "> "], (1, 2))
    assert harness.display.rows == ["日", ">"]


@given(st.lists(st.tuples(_ROWS, _ROWS, st.integers(0, 6), st.integers(0, 15)), max_size=12))
def test_after_any_frames_all_that_was_finished_stands_once_above_what_is_live(
    frames: list[tuple[list[str], list[str], int, int]],
) -> None:
    harness = Harness()
    told: list[str] = []
    for finished, live, row, column in frames:
        shown = (live or [""])[-(LINES - 1) :]
        at = min(row, len(shown) - 1)
        harness.paint(finished, live, (at, column))
        told += finished
        assert drop_empty_end(harness.display.rows) == drop_empty_end([*told, *shown])
        assert harness.display.cursor == (len(told) + at, column)


@try_each(
    ("text", "rows"),
    [
        ("a brown fox jumps over", ["a brown", "fox jumps", "over"]),
        ("x" * 25, ["x" * 10, "x" * 10, "x" * 5]),
        ("  │ one two three", ["  │ one", "    two", "    three"]),
        ("one\n\ntwo", ["one", "", "two"]),
        ("a\x1b[2Jb\a", ["a\\x1b[2Jb\\", "x07"]),
        ("日本語日本語", ["日本語日本", "語"]),
        ("", [""]),
    ],
)
def test_text_is_wrapped_between_words_and_keeps_its_indent(text: str, rows: list[str]) -> None:
    assert to_texts(wrap_text(text, 10)) == rows


@given(st.text(max_size=200), st.integers(1, 30))
def test_no_letter_is_lost_in_wrapping_and_no_row_is_too_wide(text: str, columns: int) -> None:
    rows = to_texts(wrap_text(text, columns))
    assert not any(unicodedata.category(char) == "Cc" for row in rows for char in row)
    assert join_words(rows) == join_words(to_texts(wrap_text(text, 10_000)))


def join_words(rows: list[str]) -> str:
    return "".join("".join(rows).split())


@try_each(
    ("text", "cursor", "found"),
    [
        ("abc", 3, (["abc"], 0, 3)),
        ("abcdef", 6, (["abcde", "f"], 1, 1)),
        ("abcde", 5, (["abcde", ""], 1, 0)),
        ("ab\ncd", 3, (["ab", "cd"], 1, 0)),
        ("日本語", 3, (["日本", "語"], 1, 2)),
        ("", 0, ([""], 0, 0)),
    ],
)
def test_what_is_typed_is_laid_out_with_its_cursor(text: str, cursor: int, found: tuple[list[str], int, int]) -> None:
    assert lay_out(text, 5, cursor) == found
