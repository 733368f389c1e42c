"""Edits of large files run in a worker process: the same results, and the interpreter lock stays free."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.editing import large_edit
from ostler.tools.files.read import Read
from ostler.tools.tool import AskFirst, Failure
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
EDIT, READ = Edit(), Read()
WESTERN = "caf\u00e9 cr\u00e8me br\u00fbl\u00e9e\n".encode("latin-1")
TEXT = "one\ntwo \u201cquoted\u201d\nthree\nthree\nfour\n"

CASES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "one place": (TEXT.encode(), {"old_string": "one", "new_string": "ONE\nand more"}),
    "all places": (TEXT.encode(), {"old_string": "three", "new_string": "3", "replace_all": True}),
    "several places": (TEXT.encode(), {"old_string": "three", "new_string": "3"}),
    "quotes": (TEXT.encode(), {"old_string": 'two "quoted"', "new_string": 'two "said"'}),
    "not there": (TEXT.encode(), {"old_string": "fourr", "new_string": "five"}),
    "nothing given": (TEXT.encode(), {"old_string": "", "new_string": "five"}),
    "line ends": (b"a\r\nb\r\nc\r\n", {"old_string": "a\nb", "new_string": "x\ny"}),
    "byte order mark": (b"\xef\xbb\xbfa\nb\n", {"old_string": "a", "new_string": "\u00e4"}),
    "wide letters": ("a\nb\n".encode("utf-16"), {"old_string": "a", "new_string": "\u00e4"}),
    "old letters": (WESTERN, {"old_string": "caf", "new_string": "th"}),
    "a letter that it has not": (WESTERN, {"old_string": "caf", "new_string": "\u4e2d"}),
}  # fmt: skip


async def run_edit(folder: Path, name: str, data: bytes, given: dict[str, Any], read: bool = True) -> dict[str, Any]:
    """Runs an edit and returns all its results, without the names of folders and the times of files."""
    place = folder / name
    place.mkdir()
    await anyio.run_process(["git", "init", "-q"], cwd=place)
    session, path = Session(place, folder), place / "file.txt"
    path.write_bytes(data)
    path.chmod(0o640)
    if read:
        await session.expect_result(READ, file_path=str(path))
    given = {"file_path": str(path), **given}
    checked = await session.check(EDIT, **given)
    result = await session.call(EDIT, given)
    known = session.reads.get(str(path))
    failed = isinstance(result, Failure)
    outcome: dict[str, Any] = {
        "result": (result.message, result.code) if isinstance(result, Failure) else result.output.model_dump(),
        # Of an edit that fails, the diff depends on how closely it was checked before a person is asked.
        "diff": checked.diff if isinstance(checked, AskFirst) and not failed else None,
        "data": path.read_bytes(),
        "mode": path.stat().st_mode,
        "known": replace(known, mtime_ns=0) if known else None,
        "files": sorted(each.name for each in place.iterdir()),
    }
    # The old content is not shown of a large file.
    if isinstance(outcome["result"], dict):
        outcome["result"].pop("original")
        outcome["result"].pop("original_left_out")
    return {name: _mask_folder(value, str(place)) for name, value in outcome.items()}


def _mask_folder(value: Any, place: str) -> Any:
    match value:
        case dict():
            return {key: _mask_folder(inner, place) for key, inner in value.items()}
        case list() | tuple():
            return [_mask_folder(each, place) for each in value]
        case str():
            return value.replace(place, "PLACE")
        case _:
            return value


@pytest.fixture
def worker_requests(monkeypatch: pytest.MonkeyPatch, forked_edit_program: str) -> list[Any]:
    """The requests that were sent to worker processes. Those that only plan go to a forked one."""
    requests: list[Any] = []
    run_worker = large_edit.run_worker

    def record(request: large_edit.EditRequest) -> large_edit.EditResponse | Failure:
        requests.append(request)
        with pytest.MonkeyPatch.context() as patch:
            if request.umask is None:
                patch.setattr(large_edit, "_PROGRAM", forked_edit_program)
            return run_worker(request)

    monkeypatch.setattr(large_edit, "run_worker", record)
    return requests


@pytest.mark.parametrize("case", CASES)
async def test_a_process_does_what_would_be_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker_requests: list[Any], forked_edit_program: str, case: str
) -> None:
    here = await run_edit(tmp_path, "here", *CASES[case])
    assert worker_requests == []
    monkeypatch.setattr(large_edit, "LARGE_BYTES", 0)
    if case != "one place":  # that one is written by the program as it is
        monkeypatch.setattr(large_edit, "_PROGRAM", forked_edit_program)
    there = await run_edit(tmp_path, "there", *CASES[case])
    assert worker_requests
    assert there == here


async def test_a_file_that_was_not_read_or_is_another_by_now_is_refused_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_edit_program: str
) -> None:
    monkeypatch.setattr(large_edit, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_edit, "_PROGRAM", forked_edit_program)
    refused = await run_edit(tmp_path, "unread", *CASES["one place"], read=False)
    assert refused["result"] == ["PLACE/file.txt has not been read in this session. Read it first.", 2]
    session, path = Session(tmp_path, tmp_path / "out"), tmp_path / "file.txt"
    path.write_text(TEXT)
    await session.expect_result(READ, file_path=str(path))
    path.write_text(TEXT.upper())
    failed = await session.expect_failure(EDIT, file_path=str(path), old_string="ONE", new_string="1")
    assert failed.code == 3
    assert path.read_text() == TEXT.upper()


async def test_a_process_that_dies_is_told_and_the_file_is_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = session.folder / "file.txt"
    path.write_text(TEXT)
    await session.expect_result(READ, file_path=str(path))
    monkeypatch.setattr(large_edit, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_edit, "_PROGRAM", "import os; os.kill(os.getpid(), 9)")
    failed = await session.expect_failure(EDIT, file_path=str(path), old_string="one", new_string="1")
    assert failed.message == f"{path} cannot be written: the process that was to do it has died."
    assert path.read_text() == TEXT


async def test_a_file_of_more_than_thirty_megabytes_is_changed_that_way(
    session: Session, worker_requests: list[Any]
) -> None:
    path = session.folder / "large.log"
    line = "a line as any other" + " and more" * 209 + "\n"
    path.write_text("first\n" + line * 18_000)
    await session.expect_result(READ, file_path=str(path), limit=3)
    shown = await session.expect_text(EDIT, file_path=str(path), old_string="first\n", new_string="FIRST\n")
    assert shown.startswith(f"File updated: {path}\n     1\tFIRST\n     2\ta line as any other and more")
    assert len(worker_requests) >= 2
    with path.open() as file:
        assert file.readline() == "FIRST\n"
    assert path.stat().st_size == len("first\n") + len(line) * 18_000 > large_edit.LARGE_BYTES
