"""Write: read before, written whole or not at all, asked for where it matters."""

import os
import stat
from pathlib import Path

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.fs import atomic_write
from ostler.tools.fs.protected_paths import find_protection_reason
from ostler.tools.fs.text_file import MAX_FILE_BYTES
from ostler.tools.tool import Allow, AnyTool, AskFirst, Failure, FileChanged, Refuse, ToolResult
from tests.support.tool_calls import Session, put_file, read_file

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT = Read(), Write(), Edit()


async def test_a_new_file_is_created_with_its_folders(session: Session) -> None:
    path = session.folder / "a" / "b" / "c.txt"
    assert await session.expect_text(WRITE, file_path=str(path), content="hello\n") == f"File created: {path}"
    assert path.read_text() == "hello\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


async def test_a_file_is_replaced_only_after_it_was_read_completely(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("1\n2\n3\n")
    given = {"file_path": str(path), "content": "new\n"}
    assert (await session.expect_failure(WRITE, **given)).code == 2
    await session.expect_result(READ, file_path=str(path), limit=2)
    failure = await session.expect_failure(WRITE, **given)
    assert failure.code == 2
    assert "1-2 of 3" in failure.message
    await session.expect_result(READ, file_path=str(path), offset=3)
    result = await session.expect_result(WRITE, **given)
    assert result.output.kind == "update"
    assert result.output.original == "1\n2\n3\n"
    assert result.changes == [FileChanged(str(path), f"--- {path}\n+++ {path}\n@@ -1,3 +1,1 @@\n-1\n-2\n-3\n+new\n")]


async def test_what_was_written_may_be_written_again_but_is_shown_when_read(session: Session) -> None:
    path = str(session.folder / "a.txt")
    await session.expect_result(WRITE, file_path=path, content="a\n")
    await session.expect_result(WRITE, file_path=path, content="b\n")
    assert await session.expect_text(READ, file_path=path) == "     1\tb"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("a\n")
    await session.expect_result(READ, file_path=str(path))
    path.write_text("somebody else's\n")
    failure = await session.expect_failure(WRITE, file_path=str(path), content="mine\n")
    assert failure.code == 3
    assert path.read_text() == "somebody else's\n"


async def test_a_file_that_was_only_touched_may_be_written(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("a\n")
    await session.expect_result(READ, file_path=str(path))
    os.utime(path, ns=(1, 1))
    await session.expect_result(WRITE, file_path=str(path), content="b\n")
    assert path.read_text() == "b\n"


async def test_a_change_while_the_ask_was_open_is_found_before_the_write(session: Session) -> None:
    path = session.folder / "a.txt"
    path.write_text("a\n")
    await session.expect_result(READ, file_path=str(path))
    context = session.make_context()
    given = WRITE.parse({"file_path": str(path), "content": "mine\n"})
    assert await WRITE.validate(given, context) is None
    await WRITE.check_permission(given, context)
    path.write_text("somebody else's\n")
    result = await WRITE.run(given, context)
    assert isinstance(result, Failure)
    assert result.code == 3
    assert path.read_text() == "somebody else's\n"


async def test_a_link_planted_while_the_ask_was_open_leads_nowhere(session: Session, tmp_path: Path) -> None:
    (session.folder / "sub").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    context = session.make_context()
    given = WRITE.parse({"file_path": str(session.folder / "sub" / "new.txt"), "content": "x"})
    assert await WRITE.validate(given, context) is None
    await WRITE.check_permission(given, context)
    (session.folder / "sub").rmdir()
    (session.folder / "sub").symlink_to(outside)
    result = await WRITE.run(given, context)
    assert isinstance(result, Failure)
    assert list(outside.iterdir()) == []


def test_no_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(atomic_write.PathChanged):
        atomic_write.save(str(tmp_path / "link" / "a.txt"), b"x", 0o022)
    assert list((tmp_path / "real").iterdir()) == []


async def test_a_link_keeps_leading_to_the_file_and_mode_and_owner_stay(session: Session) -> None:
    target, link = session.folder / "target.sh", session.folder / "link.sh"
    target.write_text("a\n")
    target.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(target, 1234, 2345)
    before = target.stat()
    link.symlink_to("target.sh")
    await session.expect_result(READ, file_path=str(link))
    await session.expect_result(WRITE, file_path=str(link), content="b\n")
    after = target.stat()
    assert link.is_symlink()
    assert target.read_text() == "b\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


async def test_a_file_whose_owner_could_not_be_kept_is_written_where_it_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_write, "_can_keep_owner", lambda older: False)
    path = session.folder / "a.txt"
    path.write_text("long content\n")
    before = path.stat()
    await session.expect_result(READ, file_path=str(path))
    await session.expect_result(WRITE, file_path=str(path), content="short\n")
    assert path.read_text() == "short\n"
    assert path.stat().st_ino == before.st_ino


async def test_encoding_and_mark_of_the_file_are_kept(session: Session) -> None:
    for codec in ("utf-8-sig", "utf-16", "cp1252"):
        path = session.folder / codec
        path.write_bytes("grün\r\n".encode(codec))
        await session.expect_result(READ, file_path=str(path))
        await session.expect_result(WRITE, file_path=str(path), content="größer\n")
        assert path.read_bytes() == "größer\n".encode(codec)


async def test_a_mark_that_is_given_too_is_not_written_twice(session: Session) -> None:
    path = session.folder / "marked.txt"
    path.write_bytes("grün\n".encode("utf-8-sig"))
    await session.expect_result(READ, file_path=str(path))
    await session.expect_result(WRITE, file_path=str(path), content="\ufeffgrößer\n")
    assert path.read_bytes() == "größer\n".encode("utf-8-sig")


async def test_a_letter_that_the_encoding_lacks_is_a_failure_and_changes_nothing(session: Session) -> None:
    path = session.folder / "old.txt"
    path.write_bytes("grün\n".encode("cp1252"))
    await session.expect_result(READ, file_path=str(path))
    failure = await session.expect_failure(WRITE, file_path=str(path), content="日本\n")
    assert failure.message == f"{path} is written in cp1252, which has no '日'. Nothing was written."
    assert path.read_bytes() == "grün\n".encode("cp1252")
    assert [each.name for each in session.folder.iterdir()] == ["old.txt"]


async def test_folders_devices_notebooks_and_relative_paths_are_refused(session: Session) -> None:
    assert "folder" in (await session.expect_failure(WRITE, file_path=str(session.folder), content="x")).message
    assert "device" in (await session.expect_failure(WRITE, file_path="/dev/null", content="x")).message
    assert (await session.expect_failure(WRITE, file_path=str(session.folder / "a.IPYNB"), content="{}")).code == 9
    assert (await session.expect_failure(WRITE, file_path="a.txt", content="x")).code == 8
    (session.folder / "file").write_text("")
    assert (
        "cannot be written"
        in (await session.expect_failure(WRITE, file_path=str(session.folder / "file" / "below"), content="x")).message
    )


async def test_in_default_mode_a_write_is_asked_for_with_its_diff(session: Session) -> None:
    path = str(session.folder / "a.txt")
    check = await session.check(WRITE, file_path=path, content="x\n")
    assert isinstance(check, AskFirst)
    assert not check.safety
    assert check.diff == f"--- {path}\n+++ {path}\n@@ -0,0 +1,1 @@\n+x\n"


async def test_in_accept_edits_a_write_inside_the_roots_is_allowed_and_outside_asked_for(
    session: Session, tmp_path: Path
) -> None:
    session.change_view(mode="acceptEdits")
    assert isinstance(await session.check(WRITE, file_path=str(session.folder / "a"), content=""), Allow)
    assert isinstance(await session.check(WRITE, file_path=str(tmp_path / "a"), content=""), AskFirst)
    (session.folder / "out").symlink_to(tmp_path)
    assert isinstance(await session.check(WRITE, file_path=str(session.folder / "out/a"), content=""), AskFirst)


@pytest.mark.parametrize(
    "name",
    [".git/hooks/pre-commit", ".GIT/config", ".gitmodules", ".bashrc", ".envrc", ".mcp.json", ".vscode/tasks.json",
     ".ostler/settings.local.json", ".ostler/agents/x.md", ".claude/settings.json", ".ssh/authorized_keys", ".Npmrc",
     ".g\u200cit/config", "x/../.git/config"],
)  # fmt: skip
async def test_guarded_files_are_a_safety_ask_in_every_mode(session: Session, name: str) -> None:
    for mode in ("default", "acceptEdits", "bypassPermissions"):
        session.change_view(mode=mode)
        check = await session.check(WRITE, file_path=str(session.folder / name), content="x")
        assert isinstance(check, AskFirst)
        assert check.safety


async def test_a_link_to_a_guarded_file_is_guarded(session: Session) -> None:
    (session.folder / ".git").mkdir()
    (session.folder / "harmless").symlink_to(".git/config")
    check = await session.check(WRITE, file_path=str(session.folder / "harmless"), content="x")
    assert isinstance(check, AskFirst)
    assert check.safety


def test_ordinary_files_are_not_guarded() -> None:
    for path in (
        "/p/src/git/config",
        "/p/.ostler/worktrees/a/b.py",
        "/p/.github/labels.yml",
        "/p/bashrc",
        "/p/.env",
    ):
        assert find_protection_reason(path) is None


async def test_the_daemons_own_folder_is_refused(session: Session) -> None:
    session.change_view(mode="bypassPermissions", home=str(session.folder / "home"))
    check = await session.check(WRITE, file_path=str(session.folder / "home" / "token"), content="x")
    assert isinstance(check, Refuse)


async def test_a_full_or_closed_folder_is_a_failure_that_leaves_nothing_behind(session: Session) -> None:
    result = await session.call(WRITE, {"file_path": "/proc/nothing/here", "content": "x"})
    assert isinstance(result, Failure)


async def test_writes_cannot_be_interrupted_halfway() -> None:
    assert WRITE.interrupt == EDIT.interrupt == "block"


async def test_only_an_existing_file_is_destroyed_by_a_write(session: Session) -> None:
    path = session.folder / "a"
    assert not WRITE.is_destructive(WRITE.parse({"file_path": str(path), "content": ""}))
    path.write_text("")
    assert WRITE.is_destructive(WRITE.parse({"file_path": str(path), "content": ""}))


async def test_ten_megabytes_are_written(session: Session) -> None:
    path = session.folder / "big"
    result = await session.call(WRITE, {"file_path": str(path), "content": "x" * 99 + "\n" * 1 + "y\n" * 5_000_000})
    assert isinstance(result, ToolResult)
    assert result.output.structured_patch is None
    assert path.stat().st_size == 10_000_100


NOTEBOOK = NotebookEdit()


# Write.


async def test_what_was_written_is_shown_as_numbered_lines_around_the_change(session: Session) -> None:
    old = "".join(f"line {number}\n" for number in range(1, 31))
    path = await read_file(session, "a.txt", old)
    shown = await session.expect_text(WRITE, file_path=path, content=old.replace("line 20\n", "new\n"))
    numbers = [f"    {number}\tline {number}" for number in (17, 18, 19)]
    assert shown.split("\n") == [
        f"File updated: {path}", *numbers, "    20\tnew", *(f"    {number}\tline {number}" for number in (21, 22, 23))
    ]  # fmt: skip


async def test_the_error_says_whether_a_file_was_not_read_read_in_part_or_changed(session: Session) -> None:
    path = put_file(session, "a.txt", "1\n2\n")
    given = {"file_path": path, "content": "x"}
    assert (await session.expect_failure(WRITE, **given)).message == (
        f"{path} has not been read in this session. Read it first."
    )
    await session.expect_result(READ, file_path=path, limit=1)
    assert (await session.expect_failure(WRITE, **given)).message.startswith(
        f"Only a part of {path} has been read (lines 1-1 of 2)"
    )
    await session.expect_result(READ, file_path=path)
    put_file(session, "a.txt", "3\n")
    assert (
        await session.expect_failure(WRITE, **given)
    ).message == f"{path} has changed since it was read. Read it again."


async def test_a_change_that_keeps_the_size_is_a_change(session: Session) -> None:
    path = await read_file(session, "a.txt", "old\n")
    put_file(session, "a.txt", "her\n")
    os.utime(path, ns=(1, 1))
    assert (await session.expect_failure(WRITE, file_path=path, content="new\n")).code == 3
    assert (await session.expect_failure(EDIT, file_path=path, old_string="her", new_string="new")).code == 3


async def test_the_content_is_on_the_disk_before_the_name_is_given_to_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await read_file(session, "a.txt", "old\n")
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
    await session.expect_result(WRITE, file_path=path, content="new content\n")
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
    failure = await session.expect_failure(tool, file_path=str(path), **given)
    assert (failure.code, failure.message) == (10, "The content is more than 1 GiB.")
    assert not path.exists()


@pytest.mark.parametrize("tool", [WRITE, EDIT], ids=lambda tool: tool.name)
async def test_through_a_link_to_nothing_the_file_that_it_names_is_made(session: Session, tool: AnyTool) -> None:
    link = session.folder / "link.txt"
    link.symlink_to("target.txt")
    given = {"content": "new\n"} if tool is WRITE else {"old_string": "", "new_string": "new\n"}
    assert await session.expect_text(tool, file_path=str(link), **given) == f"File created: {link}"
    assert link.is_symlink()
    assert (session.folder / "target.txt").read_text() == "new\n"


async def test_a_file_of_the_same_time_and_another_size_has_changed(session: Session) -> None:
    path = await read_file(session, "a.txt", "a\n")
    before = os.stat(path)
    put_file(session, "a.txt", "a\nb\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await session.expect_failure(EDIT, file_path=path, old_string="a", new_string="c")).code == 3
    assert (await session.expect_result(READ, file_path=path)).output.content == "a\nb"


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711])
async def test_the_bits_that_change_who_runs_a_file_stay(session: Session, mode: int) -> None:
    path = await read_file(session, "run", "#!/bin/sh\n")
    os.chmod(path, mode)
    await session.expect_result(WRITE, file_path=path, content="#!/bin/bash\n")
    assert stat.S_IMODE(os.stat(path).st_mode) == mode
