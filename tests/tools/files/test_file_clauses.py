"""Read, Write, Edit and NotebookEdit, clause by clause, where no other test says it."""

import base64
import io
import json
import os
import stat
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.reading.output import DocumentOutput, PageOutput
from ostler.tools.files.write import Write
from ostler.tools.formats.pdf import Page
from ostler.tools.fs.text_file import MAX_FILE_BYTES, digest_of
from ostler.tools.services import Diagnostic
from ostler.tools.tool import AnyTool, AskFirst, Failure, Ran
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT, NOTEBOOK = Read(), Write(), Edit(), NotebookEdit()
EXAMPLES: dict[str, dict[str, Any]] = {
    "Read": {},
    "Edit": {"old_string": "a", "new_string": "b"},
    "NotebookEdit": {"cell_id": "c", "new_source": ""},
}


def put(session: Session, name: str, data: str | bytes = "") -> str:
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


async def seen(session: Session, name: str, data: str | bytes) -> str:
    path = put(session, name, data)
    await session.done(READ, file_path=path)
    return path


# Read.


async def test_a_file_that_was_only_touched_is_shown_again(session: Session) -> None:
    path = await seen(session, "a.txt", "a\n")
    assert (await session.done(READ, file_path=path)).output.kind == "file_unchanged"
    os.utime(path, ns=(1, 1))
    assert (await session.done(READ, file_path=path)).output.kind == "text"


async def test_what_is_remembered_of_a_read_is_time_size_digest_and_lines(session: Session) -> None:
    path = put(session, "a.txt", "a\nb\nc\n")
    await session.done(READ, file_path=path, offset=2, limit=1)
    read, status = session.reads.by_path[path], os.stat(path)
    assert (read.mtime_ns, read.size) == (status.st_mtime_ns, 6)
    assert read.digest == digest_of(b"a\nb\nc\n")
    assert (read.ranges, read.total_lines, read.partial) == (((2, 2),), 3, True)


async def test_an_empty_or_past_read_shows_nothing_and_says_why(session: Session) -> None:
    empty = (await session.done(READ, file_path=put(session, "empty"))).output
    assert (empty.kind, empty.content, empty.num_lines, empty.total_lines) == ("text", "", 0, 0)
    past = (await session.done(READ, file_path=put(session, "a", "a\nb"), offset=9)).output
    assert (past.content, past.num_lines, past.start_line, past.total_lines) == ("", 0, 9, 2)
    assert past.warning


async def test_the_pictures_of_a_notebook_are_together_no_more_than_one_answer_takes(session: Session) -> None:
    def output(number: int) -> dict[str, Any]:
        file = io.BytesIO()
        Image.merge("RGB", [Image.effect_noise((1000, 1000), 100 + number) for _ in range(3)]).save(file, "PNG")
        data = {"image/png": base64.b64encode(file.getvalue()).decode()}
        return {"output_type": "display_data", "data": data, "metadata": {}}

    cell: dict[str, Any] = {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 1, "source": ["draw()"]}
    cell["outputs"] = [output(number) for number in range(4)]
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    shown = (await session.done(READ, file_path=put(session, "a.ipynb", text))).output.cells[0].outputs
    # Each has 4 MB as it is sent: with the third, more than 8 MB are used up.
    assert [len(each.pictures) for each in shown] == [1, 1, 1, 0]
    assert shown[3].text == "(a picture is left out: 3 are shown already)"


async def test_no_image_is_sent_that_has_more_than_five_megabytes_as_it_is_sent(session: Session) -> None:
    noise = [Image.effect_noise((1200, 1200), 100) for _ in range(3)]
    path = session.folder / "a.png"
    Image.merge("RGB", noise).save(path)
    assert 5 * 1024 * 1024 < path.stat().st_size * 4 / 3 < 6 * 1024 * 1024
    image = (await session.done(READ, file_path=str(path))).output.image
    assert len(image.data) <= 5 * 1024 * 1024
    assert (image.width, image.height, image.original_width) == (1200, 1200, 1200)


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/tty", "/proc/self/fd/2", "relative.txt"])
async def test_what_no_permission_could_make_readable_is_refused_before_anybody_is_asked(
    session: Session, path: str
) -> None:
    assert await READ.validate(READ.parse({"file_path": path}), session.context()) is not None


@pytest.mark.parametrize("link", ["/dev/zero", "/dev/tty", "/dev/stdin"])
async def test_a_device_is_refused_also_behind_a_link(session: Session, link: str) -> None:
    path = session.folder / "harmless.txt"
    path.symlink_to(link)
    assert isinstance(await session.call(READ, {"file_path": str(path)}), Failure)
    assert session.reads.by_path == {}


@pytest.mark.parametrize("data", [b"old\0\1\2\n", b"abc\0def\0", b"one\0three\0seven\0"])
async def test_bytes_with_a_nul_here_and_there_are_no_text(session: Session, data: bytes) -> None:
    path = put(session, "a.dat", data)
    failure = await session.failure(READ, file_path=path)
    assert failure.message == f"{path} is a binary file ({len(data)} bytes), which cannot be read as text."


# Names that are close.


async def missing(session: Session, tool: AnyTool, name: str) -> str:
    """What is said about a file that is not there."""
    key = "notebook_path" if tool is NOTEBOOK else "file_path"
    given = {**EXAMPLES[tool.name], key: str(session.folder / name)}
    failure = await session.failure(tool, **given)
    assert failure.code == 1
    return failure.message


@pytest.mark.parametrize("tool", [READ, EDIT, NOTEBOOK], ids=lambda tool: tool.name)
async def test_a_link_to_nothing_says_where_it_leads_and_is_not_offered(session: Session, tool: AnyTool) -> None:
    end = "ipynb" if tool is NOTEBOOK else "txt"
    there = put(session, f"settings.{end}")
    link, chain = session.folder / f"setting.{end}", session.folder / f"settings2.{end}"
    link.symlink_to("gone")
    chain.symlink_to(link.name)
    assert await missing(session, tool, link.name) == f"{link} is a link to gone, which does not exist."
    assert await missing(session, tool, chain.name) == f"{chain} is a link to {link.name}, which leads nowhere."
    wrong = session.folder / f"setings.{end}"
    assert await missing(session, tool, wrong.name) == f"The file {wrong} does not exist. Close to it: {there}."


@pytest.mark.parametrize("tool", [READ, EDIT, NOTEBOOK], ids=lambda tool: tool.name)
async def test_no_name_is_offered_that_a_rule_hides_or_that_is_the_daemons_own(session: Session, tool: AnyTool) -> None:
    end = "ipynb" if tool is NOTEBOOK else "txt"
    put(session, f"token1.{end}")
    put(session, f"home/token1.{end}")
    session.inside(may_read=lambda path: "token1" not in path)
    assert "token1" not in await missing(session, tool, f"token.{end}")
    session.inside(may_read=None, home=str(session.folder / "home"))
    assert "token1" in await missing(session, tool, f"token.{end}")
    assert "token1" not in await missing(session, tool, f"home/token.{end}")


async def test_nobody_hears_of_names_outside_the_folders_before_somebody_has_allowed_it(session: Session) -> None:
    outside = session.folder.parent / "outside"
    outside.mkdir()
    (outside / "token1.txt").touch()
    assert "token1" not in await missing(session, EDIT, "../outside/token.txt")
    assert "token1" in await missing(session, READ, "../outside/token.txt")  # it ran: a person has said yes


# Write.


async def test_what_was_written_is_shown_as_numbered_lines_around_the_change(session: Session) -> None:
    old = "".join(f"line {number}\n" for number in range(1, 31))
    path = await seen(session, "a.txt", old)
    shown = await session.text(WRITE, file_path=path, content=old.replace("line 20\n", "new\n"))
    numbers = [f"    {number}\tline {number}" for number in (17, 18, 19)]
    assert shown.split("\n") == [
        f"File updated: {path}", *numbers, "    20\tnew", *(f"    {number}\tline {number}" for number in (21, 22, 23))
    ]  # fmt: skip


async def test_the_error_says_whether_a_file_was_not_read_read_in_part_or_changed(session: Session) -> None:
    path = put(session, "a.txt", "1\n2\n")
    given = {"file_path": path, "content": "x"}
    assert (await session.failure(WRITE, **given)).message == (
        f"{path} has not been read in this session. Read it first."
    )
    await session.done(READ, file_path=path, limit=1)
    assert (await session.failure(WRITE, **given)).message.startswith(
        f"Only a part of {path} has been read (lines 1-1 of 2)"
    )
    await session.done(READ, file_path=path)
    put(session, "a.txt", "3\n")
    assert (await session.failure(WRITE, **given)).message == f"{path} has changed since it was read. Read it again."


async def test_a_change_that_keeps_the_size_is_a_change(session: Session) -> None:
    path = await seen(session, "a.txt", "old\n")
    put(session, "a.txt", "her\n")
    os.utime(path, ns=(1, 1))
    assert (await session.failure(WRITE, file_path=path, content="new\n")).code == 3
    assert (await session.failure(EDIT, file_path=path, old_string="her", new_string="new")).code == 3


async def test_the_content_is_on_the_disk_before_the_name_is_given_to_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await seen(session, "a.txt", "old\n")
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        status = os.fstat(descriptor)
        done.append(f"fsync of {'folder' if stat.S_ISDIR(status.st_mode) else status.st_size}")
        fsync(descriptor)

    def renamed(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        assert src_dir_fd == dst_dir_fd
        assert os.readlink(f"/proc/self/fd/{dst_dir_fd}") == str(session.folder)
        done.append(f"rename to {new}")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    await session.done(WRITE, file_path=path, content="new content\n")
    assert done == ["fsync of 12", "rename to a.txt", "fsync of folder"]


@pytest.mark.parametrize("tool", [WRITE, EDIT], ids=lambda tool: tool.name)
async def test_content_over_the_limit_is_refused_and_nothing_is_written(
    session: Session, monkeypatch: pytest.MonkeyPatch, tool: AnyTool
) -> None:
    assert MAX_FILE_BYTES == 1024**3
    # A gibibyte takes longer, and says no more.
    monkeypatch.setattr("ostler.tools.files.editing.mutation.MAX_FILE_BYTES", 10)
    path = session.folder / "a.txt"
    given = {"content": "x" * 11} if tool is WRITE else {"old_string": "", "new_string": "x" * 11}
    failure = await session.failure(tool, file_path=str(path), **given)
    assert (failure.code, failure.message) == (10, "The content is more than 1 GiB.")
    assert not path.exists()


@pytest.mark.parametrize("tool", [WRITE, EDIT], ids=lambda tool: tool.name)
async def test_through_a_link_to_nothing_the_file_that_it_names_is_made(session: Session, tool: AnyTool) -> None:
    link = session.folder / "link.txt"
    link.symlink_to("target.txt")
    given = {"content": "new\n"} if tool is WRITE else {"old_string": "", "new_string": "new\n"}
    assert await session.text(tool, file_path=str(link), **given) == f"File created: {link}"
    assert link.is_symlink()
    assert (session.folder / "target.txt").read_text() == "new\n"


# Edit.


async def test_any_read_is_enough_for_an_edit_anywhere_in_the_file(session: Session) -> None:
    path = put(session, "a.txt", "first\n" * 100 + "last\n")
    await session.done(READ, file_path=path, limit=1)
    await session.done(EDIT, file_path=path, old_string="last", new_string="end")
    assert (session.folder / "a.txt").read_text().endswith("first\nend\n")


async def test_each_error_of_edit_says_what_is_wrong_and_what_to_do(session: Session) -> None:
    path = await seen(session, "a.txt", "x x\n")
    given = {"file_path": path, "new_string": "y"}
    for old, words in {
        "y": "old_string and new_string are the same: there is nothing to change.",
        "zebra crossing": f"old_string does not occur in {path}. Nothing in it comes close.",
        "x": f"old_string occurs 2 times in {path} (lines 1, 1). "
        "Give more of the text around the one that you mean, or set replace_all.",
        "": f"old_string is empty, but {path} is not: give the text that is to be replaced.",
    }.items():
        assert (await session.failure(EDIT, **given, old_string=old)).message == words


@pytest.mark.parametrize("text", ["a\n", "a b\n", "\ta\n"])
async def test_blanks_are_never_taken_as_equal(session: Session, text: str) -> None:
    path = await seen(session, "a.txt", text)
    wrong = text.replace("\t", "    ").replace(" b", "  b").replace("\n", " \n")
    assert (await session.failure(EDIT, file_path=path, old_string=wrong, new_string="c")).code == 5


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
    path = await seen(session, "a.txt", text)
    await session.done(EDIT, file_path=path, old_string=old, new_string=new)
    assert (session.folder / "a.txt").read_text() == written


async def test_a_file_of_the_same_time_and_another_size_has_changed(session: Session) -> None:
    path = await seen(session, "a.txt", "a\n")
    before = os.stat(path)
    put(session, "a.txt", "a\nb\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await session.failure(EDIT, file_path=path, old_string="a", new_string="c")).code == 3
    assert (await session.done(READ, file_path=path)).output.content == "a\nb"


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711])
async def test_the_bits_that_change_who_runs_a_file_stay(session: Session, mode: int) -> None:
    path = await seen(session, "run", "#!/bin/sh\n")
    os.chmod(path, mode)
    await session.done(WRITE, file_path=path, content="#!/bin/bash\n")
    assert stat.S_IMODE(os.stat(path).st_mode) == mode


async def test_of_a_long_change_sixty_lines_are_shown(session: Session) -> None:
    path = await seen(session, "a.txt", "x\n")
    new = "".join(f"{number}\n" for number in range(1, 101))
    shown = (await session.text(EDIT, file_path=path, old_string="x\n", new_string=new)).split("\n")[1:]
    assert shown == [*(f"{number:6}\t{number}" for number in range(1, 61)), "…"]


async def test_who_is_asked_about_a_guarded_file_sees_the_change(session: Session) -> None:
    path = await seen(session, ".bashrc", "a\n")
    check = await session.inside("acceptEdits").check(EDIT, file_path=path, old_string="a", new_string="b")
    assert isinstance(check, AskFirst)
    assert check.safety
    assert check.diff == f"--- {path}\n+++ {path}\n@@ -1,1 +1,1 @@\n-a\n+b\n"


async def test_notebook_edit_tells_what_a_person_changed_and_what_an_editor_says(session: Session) -> None:
    class Editor:
        async def after_change(self, path: str, place: str) -> list[Diagnostic]:
            return [Diagnostic("error", f"{os.path.basename(path)} is wrong", 1, 2)]

    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c",
        "metadata": {},
        "source": "a",
        "outputs": [],
        "execution_count": None,
    }
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = await seen(session, "a.ipynb", json.dumps(content))
    context = replace(session.context(), changed_by_person=True, diagnostics=Editor())
    ran = await session.call(NOTEBOOK, {"notebook_path": path, "cell_id": "c", "new_source": "b"}, context)
    assert isinstance(ran, Ran)
    assert ran.output.user_modified
    assert NOTEBOOK.render(ran.output)[0]["text"] == (
        f"Cell replaced: c (code) in {path}\n(The person changed the text before it was written.)\n"
        "Diagnostics now:\nerror 1:2: a.ipynb is wrong"
    )


async def test_a_page_that_cannot_be_shown_says_why() -> None:
    page = PageOutput.of(Page(1, "", False, None, "it is a picture, and there is no more room"))
    output = DocumentOutput(kind="pdf", file_path="/a.pdf", file_bytes=9, pages=[page], total_pages=1)
    assert READ.render(output)[0]["text"] == (
        'PDF document /a.pdf (1 pages)\n<page number="1">\n'
        "(not shown: it is a picture, and there is no more room)\n</page>"
    )
