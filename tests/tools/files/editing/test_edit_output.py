"""What Edit and Write give to clients beside the text for the model, and how long a large file takes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing.diff import compute_hunks
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT = Read(), Write(), Edit()


def run_git(folder: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(["git", *words], cwd=folder, input=given, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ["a.txt", "with space.txt", 'grün "zitiert".txt', "back\\slash", "sub/deep/a.txt"])
async def test_in_a_repository_the_change_is_what_git_apply_takes(session: Session, tmp_path: Path, name: str) -> None:
    run_git(session.folder, "init", "-q")
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("one\ntwo\nthree")
    copy = tmp_path / "copy"
    shutil.copytree(session.folder, copy)
    await session.expect_result(READ, file_path=str(path))
    changed = await session.expect_result(EDIT, file_path=str(path), old_string="two", new_string="2\n2½")
    diff = changed.output.git_diff
    assert (diff.repository, diff.filename, diff.status) == (str(session.folder), name, "modified")
    assert (diff.additions, diff.deletions) == (2, 1)
    run_git(copy, "apply", given=diff.patch)
    assert (copy / name).read_bytes() == path.read_bytes()


async def test_a_new_file_in_a_repository_is_one_for_git_too(session: Session, tmp_path: Path) -> None:
    run_git(session.folder, "init", "-q")
    copy = tmp_path / "copy"
    shutil.copytree(session.folder, copy)
    made = await session.expect_result(WRITE, file_path=str(session.folder / "new" / "a.txt"), content="a\nb\n")
    empty = await session.expect_result(WRITE, file_path=str(session.folder / "empty"), content="")
    assert (made.output.git_diff.status, made.output.git_diff.additions) == ("added", 2)
    for ran in (made, empty):
        run_git(copy, "apply", given=ran.output.git_diff.patch)
    assert (copy / "new" / "a.txt").read_text() == "a\nb\n"
    assert (copy / "empty").read_text() == ""


async def test_outside_of_a_repository_and_in_other_encodings_there_is_no_diff_of_gits(session: Session) -> None:
    outside = await session.expect_result(WRITE, file_path=str(session.folder / "a.txt"), content="a\n")
    assert outside.output.git_diff is None
    run_git(session.folder, "init", "-q")
    path = session.folder / "wide.txt"
    path.write_bytes("a\n".encode("utf-16"))
    await session.expect_result(READ, file_path=str(path))
    wide = await session.expect_result(EDIT, file_path=str(path), old_string="a", new_string="b")
    assert wide.output.git_diff is None


async def test_nothing_of_the_repository_is_run(session: Session) -> None:
    run_git(session.folder, "init", "-q")
    run_git(session.folder, "config", "core.fsmonitor", "touch planted")
    run_git(session.folder, "config", "diff.external", "touch planted")
    await session.expect_result(WRITE, file_path=str(session.folder / "a.txt"), content="a\n")
    assert not (session.folder / "planted").exists()


async def test_the_output_has_hunks_the_original_and_what_was_used(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("say “a”\n")
    await session.expect_result(READ, file_path=str(path))
    ran = await session.expect_result(EDIT, file_path=str(path), old_string='"a"', new_string='"b"', replace_all=True)
    output = ran.output
    assert (output.file_path, output.original, output.replace_all) == (str(path), "say “a”\n", True)
    assert (output.old_string, output.new_string) == ("“a”", "“b”")
    (hunk,) = output.structured_patch
    assert (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) == (1, 1, 1, 1)
    assert hunk.lines == ["-say “a”", "+say “b”"]
    assert (output.user_modified, output.diagnostics) == (False, None)


async def test_an_edit_that_makes_or_fills_a_file_says_which(session: Session) -> None:
    new, empty = session.folder / "new.txt", session.folder / "empty.txt"
    empty.write_text("")
    assert (
        await session.expect_text(EDIT, file_path=str(new), old_string="", new_string="a\n") == f"File created: {new}"
    )
    filled = await session.expect_text(EDIT, file_path=str(empty), old_string="", new_string="a\n")
    assert filled == f"File updated: {empty}\n     1\ta"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be", "cp1252"])
async def test_encoding_mark_and_line_ends_of_the_file_are_kept_by_an_edit(session: Session, codec: str) -> None:
    path = session.folder / "a.txt"
    path.write_bytes("grün ist es\r\nund schön warm\r\n".encode(codec))
    await session.expect_result(READ, file_path=str(path))
    await session.expect_result(EDIT, file_path=str(path), old_string="es\nund", new_string="das\nund auch")
    assert path.read_bytes() == "grün ist das\r\nund auch schön warm\r\n".encode(codec)


async def test_an_edit_changes_one_place_in_five_megabytes(session: Session) -> None:
    path = session.folder / "a.txt"
    large = "".join(f"    value_{number} = compute({number} * 7, 'abc')\n" for number in range(120_000))
    path.write_text(large)
    assert path.stat().st_size > 5_000_000
    await session.expect_result(READ, file_path=str(path), limit=10)
    result = await session.expect_result(EDIT, file_path=str(path), old_string="value_60000 =", new_string="value =")
    assert path.read_text() == large.replace("value_60000 =", "value =")
    assert len(str(result.output)) < 10_000


@pytest.mark.parametrize("letter", ["x", "é", "日", "😀"])
def test_the_patch_of_a_long_text_is_found_wherever_the_change_is(letter: str) -> None:
    lines = [f"{letter} {number}" for number in range(30_000)]
    old = "\n".join(lines) + "\n"
    for place in (0, 1, 15_000, 29_998, 29_999):
        new = "\n".join([*lines[:place], "changed", *lines[place + 1 :]]) + "\n"
        found = compute_hunks(old, new)
        assert found is not None
        (hunk,) = found
        assert [line for line in hunk.lines if line[0] != " "] == [f"-{lines[place]}", "+changed"]
        assert hunk.old_start == max(1, place - 2)
    assert compute_hunks(old, old) == []
    longer = compute_hunks(old, old + "more\n")
    assert longer is not None
    assert longer[0].lines[-1] == "+more"


@pytest.mark.parametrize(("size", "left_out"), [(50_000, False), (50_001, True)])
async def test_an_original_that_clients_would_see_cut_is_left_out_and_said_to_be(
    session: Session, size: int, left_out: bool
) -> None:
    path = session.folder / "a.txt"
    content = "x\n" + "y" * (size - 2)
    path.write_text(content)
    await session.expect_result(READ, file_path=str(path))
    edited = (await session.expect_result(EDIT, file_path=str(path), old_string="x", new_string="z")).output
    assert (edited.original, edited.original_left_out) == (None if left_out else content, left_out)
    written = (await session.expect_result(WRITE, file_path=str(path), content="new")).output
    assert written.original_left_out == left_out
    created = (await session.expect_result(WRITE, file_path=f"{path}.new", content="new")).output
    assert (created.original, created.original_left_out) == (None, False)
