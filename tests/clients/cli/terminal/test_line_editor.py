"""The line editor: what a person types, as the bytes of a terminal in any pieces."""

import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.cli.output import sanitize
from ostler.clients.cli.terminal.completion import Suggestion
from ostler.clients.cli.terminal.history import History
from ostler.clients.cli.terminal.input_events import EndOfInput, Escape, Line, Shortcut, StrayKeys
from ostler.clients.cli.terminal.line_editor import LineEditor
from tests.support.tables import try_each

PASTED = 200_000
SECONDS = 5.0
"""A paste took minutes; this is far more than it takes on a slow machine."""


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
    assert editor.patience is not None
    list(editor.feed(b"[DX"))
    assert editor.text == "aXb"
    assert not editor.patience
    list(editor.feed(b"\x1b"))
    assert editor.take_unfinished() == Escape()
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


@try_each(
    ("keys", "text"),
    [
        ("a\nb", "a\nb"),
        ("a\x1b\rb", "a\nb"),
        ("a\x1b[13;2ub", "a\nb"),
        ("a\x1b[27;2;13~b", "a\nb"),
        ("a\\\rb", "a\nb"),
        ("one two\x1bbX", "one Xtwo"),
        ("one two\x17\x19\x19", "one twotwo"),
        ("one two\x17\x1f", "one two"),
        ("one two\x1b[1;5D\x0b", "one "),
        ("one\ntwo\x1b[AX", "oneX\ntwo"),
    ],
)
def test_several_lines_words_undo_and_yank(keys: str, text: str) -> None:
    editor = LineEditor()
    assert list(editor.feed(keys.encode())) == []
    assert editor.text == text


@try_each(
    "report",
    [
        "\x1b[<0;10;10M",
        "\x1b[<35;1;1m",
        "\x1b[M !!",
        "\x1b[32;10;10M",
        "\x1b[?1;2c",
        "\x1b[>41;354;0c",
        "\x1b[12;40R",
        "\x1b]11;rgb:0000/0000/0000\x07",
        "\x1b]52;c;aGF5\x1b\\",
        "\x1bP>|xterm(370)\x1b\\",
        "\x1b_Gi=1;OK\x1b\\",
        "\x1b[I",
        "\x1b[O",
        "\x1b[200;5u",
        "\x1b[?2026;2$y",
    ],
)
def test_a_report_that_nobody_asked_for_is_dropped_and_typing_goes_on(report: str) -> None:
    editor = LineEditor()
    assert list(editor.feed(f"ab{report}cd\r".encode())) == [Line("abcd")]
    for byte in report.encode():
        assert list(editor.feed(bytes([byte]))) == []
    assert list(editor.feed(b"ef\r")) == [Line("ef")]


def test_a_sequence_that_never_ends_is_dropped_when_nothing_follows() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"ab\x1b[12;")) == []
    assert editor.take_unfinished() is None
    assert list(editor.feed(b"cd\r")) == [Line("abcd")]
    assert list(editor.feed(b"\x1b]0;" + b"x" * 10_000 + b"\r")) != []
    editor.take_draft()
    list(editor.feed(b"\x1b[200~half a paste"))
    assert editor.take_unfinished() is None
    assert editor.text == "half a paste"


@given(st.binary(max_size=60))
def test_no_bytes_kill_the_input(data: bytes) -> None:
    editor = LineEditor()
    for _ in editor.feed(data):
        pass
    editor.take_unfinished()
    editor.take_draft()
    list(editor.feed(b" "))  # the rest of a letter in UTF-8 is no longer to come
    editor.take_draft()
    assert list(editor.feed(b"hello\r")) == [Line("hello")]


def test_a_long_paste_is_named_in_the_line_and_sent_whole() -> None:
    editor = LineEditor()
    pasted = "ab cd\n" * (PASTED // 6)
    began = time.monotonic()
    list(editor.feed(f"see \x1b[200~{pasted}\x1b[201~ there".encode()))
    assert editor.text == "see [pasted 1: 33,334 lines] there"
    assert list(editor.feed(b"\r")) == [Line(f"see {pasted} there", "see [pasted 1: 33,334 lines] there")]
    list(editor.feed(b"y" * PASTED))
    assert time.monotonic() - began < SECONDS


def test_vi_keys_edit_and_escape_stops_only_from_the_normal_mode() -> None:
    editor = LineEditor(vi=True)
    assert list(editor.feed(b"hello world\x1b")) == []
    assert (editor.take_unfinished(), editor.vi_mode) == (None, "NORMAL")
    list(editor.feed(b"0dwA!"))
    assert (editor.text, editor.vi_mode) == ("world!", "INSERT")
    list(editor.feed(b"\x1b"))
    editor.take_unfinished()
    list(editor.feed(b"\x1b"))
    assert editor.take_unfinished() == Escape()
    assert list(editor.feed(b"\r")) == [Line("world!")]


def test_keys_that_stand_for_commands_are_told_apart_from_text() -> None:
    editor = LineEditor()
    assert list(editor.feed(b"?\x02\x0f\x14\x1b[Z")) == [
        Shortcut(command) for command in ("/keys", "/background", "/transcript", "/toggle-todos", "/next-mode")
    ]
    assert list(editor.feed(b"why?\r")) == [Line("why?")]


def test_the_history_is_there_again_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "history" / "a.jsonl"
    list(LineEditor(History(file)).feed(b"one\rtwo\nlines\r"))
    assert file.stat().st_mode & 0o077 == 0
    with file.open("a") as broken:
        broken.write("not json\n")
    editor = LineEditor(History(file))
    list(editor.feed(b"\x1b[A"))
    assert editor.text == "two\nlines"
    list(editor.feed(b"\x1b[A\x1b[A"))
    assert editor.text == "one"


def test_ctrl_r_finds_what_was_sent_before() -> None:
    editor = LineEditor()
    list(editor.feed(b"make test\rls\rmake lint\r\x12make"))
    assert editor.search is not None
    assert editor.search.found == "make lint"
    list(editor.feed(b"\x12\r"))
    assert editor.text == "make test"
    assert list(editor.feed(b"\r")) == [Line("make test")]


def test_what_is_suggested_is_taken_with_tab_and_left_with_escape() -> None:
    editor = LineEditor()
    words = ["/mode ", "/model ", "/quit "]
    editor.menu.suggest = lambda text, cursor: [Suggestion(0, word) for word in words if word.startswith(text or "?")]
    list(editor.feed(b"/mo"))
    assert [one.text for one in editor.menu.suggestions] == ["/mode ", "/model "]
    assert list(editor.feed(b"\x1b[B\t")) == []
    assert (editor.text, editor.menu.is_open) == ("/model ", False)
    list(editor.feed(b"\x15/q\r"))
    assert editor.text == "/quit "
    list(editor.feed(b"\x15/m\x1b"))
    assert editor.take_unfinished() is None
    assert (editor.text, editor.menu.is_open) == ("/m", False)


def test_an_arrow_up_on_an_empty_line_takes_words_back_that_wait() -> None:
    editor = LineEditor()
    list(editor.feed(b"one\r"))
    editor.has_waiting = True
    assert list(editor.feed(b"\x1b[A")) == [Shortcut("/unsteer")]
