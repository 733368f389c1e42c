"""Edit and line ends: the file keeps its own, and no CRLF is split."""

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing import text_match
from ostler.tools.files.read import Read
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, EDIT = Read(), Edit()


def replace_text(text: str, old: str, new: str) -> str:
    places = text_match.find_replacements(text, old, new)
    assert places
    return text_match.apply_replacements(text, places)


@try_each(
    ("old", "new", "after"),
    [
        ("\nint b;", "\nint c;", "int a;\r\n\r\nint c;\r\n"),
        ("\nint b;", "int c;", "int a;\r\nint c;\r\n"),
        ("\n\nint b;", "\nint b;", "int a;\r\nint b;\r\n"),
        ("\nint b;\n", "\n", "int a;\r\n\r\n"),
        ("int b;\n", "int c;\n\n", "int a;\r\n\r\nint c;\r\n\r\n"),
        ("\r\nint b;", "\nint c;", "int a;\r\n\r\nint c;\r\n"),
        ("\n", "", "int a;int b;"),
        ("\n", "\n\n", "int a;\r\n\r\n\r\n\r\nint b;\r\n\r\n"),
        ("\n\n", "\n", "int a;\r\nint b;\r\n"),
    ],
)
def test_a_line_end_of_two_characters_is_never_taken_apart(old: str, new: str, after: str) -> None:
    assert replace_text("int a;\r\n\r\nint b;\r\n", old, new) == after


def test_the_first_of_a_file_counts_too() -> None:
    assert replace_text("\r\nfoo\r\n", "\nfoo", "\nbar") == "\r\nbar\r\n"


def test_in_a_file_with_both_the_line_end_before_the_passage_stays() -> None:
    assert replace_text("a\nb\nc\r\nd\ne\n", "\nd", "\nx") == "a\nb\nc\r\nx\ne\n"
    assert replace_text("a\nb\nc\r\nd\ne\n", "\nd", "") == "a\nb\nc\ne\n"


def test_passages_that_touch_within_a_line_end_do_not_overlap() -> None:
    assert replace_text("\r\na\r\na\r", "\na\r", "x") == "xx"


def test_quotes_match_across_line_ends_from_a_line_end_on() -> None:
    assert replace_text("a\r\n“b”\r\n", '\n"b"', '\n"c"') == "a\r\n“c”\r\n"


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [("a\r\nb\r\n", "\r\n", "\n"), ("a\nb\n", "\n", "\r\n"), ('say "hi"\n', "“hi”", '"hi"')],
)
async def test_an_edit_that_would_change_nothing_says_so(session: Session, content: str, old: str, new: str) -> None:
    path = session.folder / "a.txt"
    path.write_bytes(content.encode())
    before = path.stat().st_mtime_ns
    await session.expect_result(READ, file_path=str(path))
    failure = await session.expect_failure(EDIT, file_path=str(path), old_string=old, new_string=new, replace_all=True)
    assert failure.code == 4
    assert "keeps the line ends and the style of quotes" in failure.message
    assert "sed -i" in failure.message
    assert path.read_bytes() == content.encode()
    assert path.stat().st_mtime_ns == before


def test_in_a_file_with_both_new_line_ends_are_as_they_are_given() -> None:
    assert replace_text("a\nb\r\nc\n", "c", "x\r\ny\nz") == "a\nb\r\nx\r\ny\nz\n"
