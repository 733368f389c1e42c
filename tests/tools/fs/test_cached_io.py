"""Files that are read without a worker thread: only small, local, regular ones in the page cache."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.files.read import Read
from ostler.tools.fs import cached_io
from ostler.tools.fs.cached_io import WouldBlock
from tests.support.tool_calls import Session

READ = Read()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is in the page cache: it was written just now."""
    path = tmp_path.resolve() / "a.txt"
    path.write_text("hello\n")
    try:
        cached_io.read_file(str(path))
    except WouldBlock:
        pytest.skip("this system cannot tell without waiting")
    return path


def test_a_small_file_is_read_whole_under_its_real_name(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    for path in (file, link):
        found = cached_io.read_file(str(path))
        assert (found.real_path, found.data, found.status.st_ino) == (str(file), b"hello\n", file.stat().st_ino)
        assert cached_io.resolve_path(str(path)) == str(file)


def test_an_empty_file_is_nothing_at_once(file: Path) -> None:
    file.write_bytes(b"")
    assert cached_io.read_file(str(file)).data == b""


def test_what_is_missing_large_or_no_plain_file_is_left_to_a_thread(file: Path) -> None:
    large, pipe = file.with_name("large"), file.with_name("pipe")
    large.write_bytes(bytes(cached_io.MAX_BYTES + 1))
    os.mkfifo(pipe)
    for path in (file.with_name("gone"), large, pipe, file.parent, "/proc/self/status", f"{file}\0"):
        with pytest.raises(WouldBlock):
            cached_io.read_file(str(path))


@pytest.mark.parametrize(
    "change",
    [lambda path: path.write_text("hello and more\n"), lambda path: os.truncate(path, 2)],
    ids=["longer", "shorter"],
)
def test_a_file_that_changes_while_it_is_read_is_left_to_a_thread(
    file: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], Any]
) -> None:
    preadv = os.preadv

    def late(descriptor: int, buffers: Any, offset: int, flags: int) -> int:
        change(file)
        return preadv(descriptor, buffers, offset, flags)

    monkeypatch.setattr(os, "preadv", late)
    with pytest.raises(WouldBlock):
        cached_io.read_file(str(file))


def test_a_file_system_that_may_have_to_ask_somebody_is_left_to_a_thread(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_io, "_LOCAL", frozenset())
    monkeypatch.setattr(cached_io, "_devices", {})
    with pytest.raises(WouldBlock):
        cached_io.read_file(str(file))


def test_a_path_that_leads_elsewhere_meanwhile_is_read_where_it_led(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is read is the one that was checked."""
    fstat, secret = os.fstat, file.with_name("secret")
    secret.write_text("other\n")

    def turned(descriptor: int) -> os.stat_result:
        if file.exists() and not file.is_symlink():
            file.rename(file.with_name("moved"))
            file.symlink_to(secret)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", turned)
    assert cached_io.read_file(str(file)).data == b"hello\n"


@pytest.mark.anyio
async def test_a_file_whose_name_looks_deleted_is_read_all_the_same(session: Session) -> None:
    path = session.folder / "a.txt (deleted)"
    path.write_text("hello\n")
    with pytest.raises(WouldBlock):
        cached_io.read_file(str(path))
    assert await session.expect_text(READ, file_path=str(path)) == "     1\thello"
    assert set(session.reads.by_path) == {str(path)}
