"""Edit and quotes: those that stay are kept as in the file, new ones are curly only where all of their kind are."""

import time

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing import text_match
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from tests.support.tool_calls import Session, read_file

pytestmark = pytest.mark.anyio


def replace_text(text: str, old: str, new: str) -> str:
    places = text_match.find_replacements(text, old, new)
    assert places
    return text_match.apply_replacements(text, places)


def test_an_apostrophe_in_a_comment_does_not_make_the_quotes_of_the_code_curly() -> None:
    before = "// don’t touch\nlet x = 'a';\n"
    old = "// don't touch\nlet x = 'a';"
    assert replace_text(before, old, "// don't touch\nlet x = 'b';\nlet y = 'c';") == (
        "// don’t touch\nlet x = 'b';\nlet y = 'c';\n"
    )
    # Nor where there were none in the code before.
    assert replace_text("# don’t\nx = 1\n", "# don't\nx = 1", "# don't\nx = 'a'") == "# don’t\nx = 'a'\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_quote_that_stays_is_the_one_of_the_file(end: str) -> None:
    before = f"# “soft” and “hard”{end}say(\"soft\", 'x'){end}"
    old = '# "soft" and "hard"\nsay("soft", \'x\')'
    new = '# "soft" or "hard", "both"\nwhen()\nsay("soft", "hard", \'y\')'
    assert (
        replace_text(before, old, new) == f'# “soft” or “hard”, "both"{end}when(){end}say("soft", "hard", \'y\'){end}'
    )


def test_a_passage_with_curly_quotes_only_gets_no_straight_ones() -> None:
    assert (
        replace_text("He said “no”.\n", 'said "no"', 'said "no" and "yes", "maybe"')
        == "He said “no” and “yes”, “maybe”.\n"
    )
    assert replace_text("She’s in.\n", "She's", "She's out, and he's") == "She’s out, and he’s in.\n"


def test_a_new_quote_of_a_kind_that_the_passage_does_not_show_is_as_given() -> None:
    assert replace_text("“a” b\n", '"a" b', "\"a\" 'b'") == "“a” 'b'\n"


def test_an_apostrophe_that_goes_is_not_the_quote_that_comes() -> None:
    assert replace_text("it’s “x” a\n", 'it\'s "x"', "f(\"a\", 'b')") == "f(“a”, 'b') a\n"


def test_a_passage_with_straight_quotes_only_gets_no_curly_ones() -> None:
    assert replace_text('x = "a"\n', "x = “a”", "x = “b”, ‘c’") == "x = \"b\", 'c'\n"


def test_a_replacement_of_thousands_of_words_is_not_compared_word_by_word() -> None:
    old = " ".join(f'"{number}"' for number in range(20_000))
    text = old.replace('"0"', "“0”")
    begun = time.process_time()
    assert replace_text(text, old, old.replace("1", "2"))[:7] == '“0” "2"'
    assert time.process_time() - begun < 5


def test_every_form_of_quotes_is_equal_to_the_straight_one() -> None:
    for mark in "“”„‟":
        assert replace_text(f"a{mark} b\n", 'a" b', 'a" c') == f"a{mark} c\n"
    for mark in "‘’‚‛":
        assert replace_text(f"a{mark} b\n", "a' b", "a' c") == f"a{mark} c\n"


def test_quotes_and_line_ends_are_taken_as_equal_at_once() -> None:
    assert replace_text("say “a”\r\nand\r\n", 'say "a"\nand', 'say "b"\nor') == "say “b”\r\nor\r\n"


READ, WRITE, EDIT, NOTEBOOK = Read(), Write(), Edit(), NotebookEdit()


@pytest.mark.parametrize(
    ("text", "old", "new", "written"),
    [
        ("say “hi” and ‘ho’\n", "\"hi\" and 'ho'", "\"ha\" or 'he'", "say “ha” or ‘he’\n"),
        ("it’s late\n", "it's", "it isn't", "it isn’t late\n"),
        pytest.param("sag „ja“ und ‚nein‘\n", "\"ja\" und 'nein'", "\"so\" oder 'nie'", "sag „so“ oder ‚nie‘\n"),
        pytest.param("das „ist\n", 'das "ist', 'das "war"', "das „war“\n"),
    ],
)
async def test_what_is_written_has_the_quotes_of_the_file(
    session: Session, text: str, old: str, new: str, written: str
) -> None:
    path = await read_file(session, "a.txt", text)
    await session.expect_result(EDIT, file_path=path, old_string=old, new_string=new)
    assert (session.folder / "a.txt").read_text() == written
