"""Edit: exact, but for quotes and line ends; each failure with its code."""

import time

import hypothesis
import hypothesis.strategies as st
import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing.diff import Hunk, compute_hunks, format_unified
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.tool import AskFirst, FileChanged
from tests.support.tool_calls import Session, put_file, read_file

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT = Read(), Write(), Edit()


async def write_and_read(session: Session, content: str | bytes, name: str = "a.txt") -> str:
    """Writes a file and reads it in the session."""
    path = session.folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    await session.expect_result(READ, file_path=str(path), limit=100)
    return str(path)


def load_text(session: Session, name: str = "a.txt") -> str:
    return (session.folder / name).read_bytes().decode()


async def test_a_passage_is_replaced_and_shown_with_its_surroundings(session: Session) -> None:
    path = await write_and_read(session, "one\ntwo\nthree\n")
    shown = await session.expect_text(EDIT, file_path=path, old_string="two", new_string="2\n2½")
    assert shown == f"File updated: {path}\n     1\tone\n     2\t2\n     3\t2½\n     4\tthree"
    assert load_text(session) == "one\n2\n2½\nthree\n"


async def test_the_change_carries_its_patch(session: Session) -> None:
    path = await write_and_read(session, "a\nb\n")
    result = await session.expect_result(EDIT, file_path=path, old_string="b", new_string="c")
    assert result.changes == [FileChanged(path, f"--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")]


async def test_edits_follow_each_other_without_reading_again(session: Session) -> None:
    path = await write_and_read(session, "a\nb\n")
    await session.expect_result(EDIT, file_path=path, old_string="a", new_string="1")
    await session.expect_result(EDIT, file_path=path, old_string="b", new_string="2")
    await session.expect_result(WRITE, file_path=path, content="all\n")
    assert load_text(session) == "all\n"


async def test_each_failure_has_its_code(session: Session) -> None:
    path = str(session.folder / "a.txt")
    change = {"old_string": "x", "new_string": "y"}
    assert (await session.expect_failure(EDIT, file_path=path, **change)).code == 1
    (session.folder / "a.txt").write_text("x x\n")
    assert (await session.expect_failure(EDIT, file_path=path, **change)).code == 2
    await session.expect_result(READ, file_path=path)
    assert (await session.expect_failure(EDIT, file_path=path, old_string="x", new_string="x")).code == 4
    assert (await session.expect_failure(EDIT, file_path=path, old_string="z", new_string="y")).code == 5
    assert (await session.expect_failure(EDIT, file_path=path, **change)).code == 6
    (session.folder / "a.txt").write_text("x\n")
    assert (await session.expect_failure(EDIT, file_path=path, **change)).code == 3
    assert (await session.expect_failure(EDIT, file_path="a.txt", **change)).code == 8
    assert (await session.expect_failure(EDIT, file_path="/a.ipynb", **change)).code == 9


async def test_a_file_of_more_than_a_gibibyte_is_refused(session: Session) -> None:
    path = session.folder / "sparse"
    with path.open("wb") as file:
        file.truncate(1024**3 + 1)
    failure = await session.expect_failure(EDIT, file_path=str(path), old_string="x", new_string="y")
    assert failure.code == 10


async def test_several_places_are_named_and_replaced_on_request(session: Session) -> None:
    path = await write_and_read(session, "a\nb\na\n")
    failure = await session.expect_failure(EDIT, file_path=path, old_string="a", new_string="c")
    assert "2 times" in failure.message
    assert "lines 1, 3" in failure.message
    await session.expect_result(EDIT, file_path=path, old_string="a", new_string="c", replace_all=True)
    assert load_text(session) == "c\nb\nc\n"


async def test_an_empty_old_string_creates_or_fills_but_never_replaces(session: Session) -> None:
    path = str(session.folder / "new" / "a.txt")
    await session.expect_result(EDIT, file_path=path, old_string="", new_string="hello\n")
    assert load_text(session, "new/a.txt") == "hello\n"
    assert (await session.expect_failure(EDIT, file_path=path, old_string="", new_string="x")).code == 5
    (session.folder / "empty").write_text("")
    await session.expect_result(EDIT, file_path=str(session.folder / "empty"), old_string="", new_string="x")
    assert load_text(session, "empty") == "x"


async def test_quotes_match_in_either_style_and_the_file_keeps_its_own(session: Session) -> None:
    path = await write_and_read(session, "say “hi”, it’s late\n")
    result = await session.expect_result(EDIT, file_path=path, old_string='"hi", it\'s', new_string='"ho", it\'s not')
    assert load_text(session) == "say “ho”, it’s not late\n"
    assert result.output.old_string == "“hi”, it’s"
    path = await write_and_read(session, 'say "hi"\n', "b.txt")
    await session.expect_result(EDIT, file_path=path, old_string="“hi”", new_string="“ho”")
    assert load_text(session, "b.txt") == 'say "ho"\n'


async def test_an_exact_match_wins_over_one_by_quotes(session: Session) -> None:
    path = await write_and_read(session, '“a”\n"a"\n')
    await session.expect_result(EDIT, file_path=path, old_string='"a"', new_string='"b"')
    assert load_text(session) == '“a”\n"b"\n'


async def test_line_ends_match_in_either_style_and_the_file_keeps_its_own(session: Session) -> None:
    path = await write_and_read(session, "one\r\ntwo\r\nthree\r\n")
    await session.expect_result(EDIT, file_path=path, old_string="one\ntwo\n", new_string="1\n2\n2½\n")
    assert load_text(session) == "1\r\n2\r\n2½\r\nthree\r\n"
    await session.expect_result(EDIT, file_path=path, old_string="three", new_string="3\n4")
    assert load_text(session) == "1\r\n2\r\n2½\r\n3\r\n4\r\n"
    path = await write_and_read(session, "one\ntwo\n", "b.txt")
    await session.expect_result(EDIT, file_path=path, old_string="one\r\ntwo", new_string="1\r\n2")
    assert load_text(session, "b.txt") == "1\n2\n"


async def test_lines_that_end_with_a_return_alone_match_as_they_are_shown_and_stay_so(session: Session) -> None:
    path = await write_and_read(session, b"one\rtwo\rthree\r")
    await session.expect_result(EDIT, file_path=path, old_string="one\ntwo\n", new_string="1\n2\n")
    assert load_text(session) == "1\r2\rthree\r"
    done = await session.expect_text(EDIT, file_path=path, old_string="three", new_string="3\r\n4")
    assert load_text(session) == "1\r2\r3\r4\r"
    assert done.endswith("     1\t1\n     2\t2\n     3\t3\n     4\t4")


async def test_mixed_line_ends_outside_the_passage_stay(session: Session) -> None:
    path = await write_and_read(session, "a\nb\r\nc\r\nd\ne\r\n")
    await session.expect_result(EDIT, file_path=path, old_string="b\nc\n", new_string="B\nC\n")
    assert load_text(session) == "a\nB\r\nC\r\nd\ne\r\n"


async def test_nothing_fuzzier_is_matched_but_the_closest_passage_is_shown(session: Session) -> None:
    path = await write_and_read(session, "import os\n\ndef start(self):\n    return self.name\n")
    failure = await session.expect_failure(
        EDIT, file_path=path, old_string="def start(self):\n  return self.name", new_string="x"
    )
    assert failure.code == 5
    assert "     3\tdef start(self):\n     4\t    return self.name" in failure.message


async def test_a_search_in_five_megabytes_does_not_take_seconds(session: Session) -> None:
    path = await write_and_read(
        session, "".join(f"    value_{number} = compute({number} * 7, 'abc')\n" for number in range(120_000))
    )
    started = time.monotonic()
    old = "".join(f"    value_{number} = compute({number} * 8, 'abc')\n" for number in range(99_990, 100_020))
    failure = await session.expect_failure(EDIT, file_path=path, old_string=old, new_string="x")
    assert failure.code == 5
    assert " 99991\t    value_99990 = " in failure.message
    assert time.monotonic() - started < 3


async def test_after_a_partial_read_only_what_stands_before_the_edit_is_still_known(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("".join(f"{number}\n" for number in range(1, 101)))
    await session.expect_result(READ, file_path=str(path), offset=40, limit=20)
    await session.expect_result(EDIT, file_path=str(path), old_string="50\n", new_string="x\ny\n")
    read = session.reads.by_path[str(path)]
    assert read.ranges == ((40, 49),)
    assert read.total_lines == 101


async def test_more_places_than_anybody_means_are_refused(session: Session) -> None:
    path = await write_and_read(session, "a" * 200_001)
    failure = await session.expect_failure(EDIT, file_path=path, old_string="a", new_string="b", replace_all=True)
    assert failure.code == 6


def test_a_patch_shows_far_apart_changes_of_a_long_file() -> None:
    old = [f"line {number}" for number in range(20_000)]
    new = list(old)
    new[10], new[19_000] = "changed", "changed too"
    found = compute_hunks("\n".join(old) + "\n", "\n".join(new) + "\n")
    assert found is not None
    assert [(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) for hunk in found] == [
        (8, 7, 8, 7),
        (18_998, 7, 18_998, 7),
    ]


def test_a_patch_tells_a_missing_line_end() -> None:
    assert (
        format_unified("f", compute_hunks("a", "a\n"))
        == "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
    )


def test_a_patch_that_is_too_long_is_left_out() -> None:
    assert compute_hunks("x\n" * 60_000, "y\n" * 60_000) is None


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


@hypothesis.given(LINES, LINES)
def test_a_patch_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    old, new = "\n".join(before), "\n".join(after)
    found = compute_hunks(old, new)
    assert found is not None
    assert apply_hunks(old, found) == new


def apply_hunks(old: str, hunks: list[Hunk]) -> str:
    """Applies the hunks to the old text; all that they say of it must be true."""
    mark = "\n\\ No newline at end of file"
    lines = old.split("\n")
    lines = lines[:-1] if lines[-1] == "" else [*lines[:-1], lines[-1] + mark]
    made: list[str] = []
    place = 0
    for hunk in hunks:
        start = hunk.old_start - (1 if hunk.old_lines else 0)
        made += lines[place:start]
        assert len(made) == hunk.new_start - (1 if hunk.new_lines else 0)
        old_side = [line[1:] for line in hunk.lines if line[0] in " -"]
        new_side = [line[1:] for line in hunk.lines if line[0] in " +"]
        assert old_side == lines[start : start + hunk.old_lines]
        assert len(new_side) == hunk.new_lines
        made += new_side
        place = start + hunk.old_lines
    text = "".join(f"{line}\n" for line in [*made, *lines[place:]])
    return text.replace(mark + "\n", "")


NOTEBOOK = NotebookEdit()


# Edit.


async def test_any_read_is_enough_for_an_edit_anywhere_in_the_file(session: Session) -> None:
    path = put_file(session, "a.txt", "first\n" * 100 + "last\n")
    await session.expect_result(READ, file_path=path, limit=1)
    await session.expect_result(EDIT, file_path=path, old_string="last", new_string="end")
    assert (session.folder / "a.txt").read_text().endswith("first\nend\n")


async def test_each_error_of_edit_says_what_is_wrong_and_what_to_do(session: Session) -> None:
    path = await read_file(session, "a.txt", "x x\n")
    given = {"file_path": path, "new_string": "y"}
    for old, words in {
        "y": "old_string and new_string are the same: there is nothing to change.",
        "zebra crossing": f"old_string does not occur in {path}. Nothing in it comes close.",
        "x": f"old_string occurs 2 times in {path} (lines 1, 1). "
        "Give more of the text around the one that you mean, or set replace_all.",
        "": f"old_string is empty, but {path} is not: give the text that is to be replaced.",
    }.items():
        assert (await session.expect_failure(EDIT, **given, old_string=old)).message == words


@pytest.mark.parametrize("text", ["a\n", "a b\n", "\ta\n"])
async def test_blanks_are_never_taken_as_equal(session: Session, text: str) -> None:
    path = await read_file(session, "a.txt", text)
    wrong = text.replace("\t", "    ").replace(" b", "  b").replace("\n", " \n")
    assert (await session.expect_failure(EDIT, file_path=path, old_string=wrong, new_string="c")).code == 5


async def test_of_a_long_change_sixty_lines_are_shown(session: Session) -> None:
    path = await read_file(session, "a.txt", "x\n")
    new = "".join(f"{number}\n" for number in range(1, 101))
    shown = (await session.expect_text(EDIT, file_path=path, old_string="x\n", new_string=new)).split("\n")[1:]
    assert shown == [*(f"{number:6}\t{number}" for number in range(1, 61)), "…"]


async def test_who_is_asked_about_a_guarded_file_sees_the_change(session: Session) -> None:
    path = await read_file(session, ".bashrc", "a\n")
    check = await session.change_view("acceptEdits").check(EDIT, file_path=path, old_string="a", new_string="b")
    assert isinstance(check, AskFirst)
    assert check.safety
    assert check.diff == f"--- {path}\n+++ {path}\n@@ -1,1 +1,1 @@\n-a\n+b\n"
