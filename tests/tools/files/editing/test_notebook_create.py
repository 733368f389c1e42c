"""A new notebook is written as its JSON; an existing one is changed by cell; a broken one says how to repair it."""

import json

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ, WRITE, EDIT, NOTEBOOK = Read(), Write(), Edit(), NotebookEdit()
EMPTY = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.parametrize("exists", [False, True])
async def test_write_creates_a_notebook_that_can_be_changed_at_once(session: Session, exists: bool) -> None:
    path = session.folder / "a.ipynb"
    if exists:
        path.write_text("")
        assert "Write creates it" in (await session.expect_failure(READ, file_path=str(path))).message
    await session.expect_result(WRITE, file_path=str(path), content=EMPTY)
    await session.expect_result(
        NOTEBOOK, notebook_path=str(path), new_source="1 + 1", cell_type="code", edit_mode="insert"
    )
    assert "1 + 1" in await session.expect_text(READ, file_path=str(path))


async def test_edit_creates_a_notebook_from_an_empty_old_text(session: Session) -> None:
    path = session.folder / "a.ipynb"
    await session.expect_result(EDIT, file_path=str(path), old_string="", new_string=EMPTY)
    assert path.read_text() == EMPTY


@pytest.mark.parametrize("content", ["print(1)\n", "{", "[]", '{"nbformat": 3, "worksheets": []}', '{"nbformat": 4}'])
async def test_what_is_no_notebook_does_not_become_one(session: Session, content: str) -> None:
    path = session.folder / "a.ipynb"
    for failure in (
        await session.expect_failure(WRITE, file_path=str(path), content=content),
        await session.expect_failure(EDIT, file_path=str(path), old_string="", new_string=content),
    ):
        assert failure.code == 9
        assert failure.message.startswith(f"Nothing was written: {path} is ")
        assert EMPTY in failure.message
    assert not path.exists()


async def test_a_notebook_with_cells_is_left_to_its_own_tool(session: Session) -> None:
    path = session.folder / "a.ipynb"
    path.write_text(EMPTY)
    await session.expect_result(READ, file_path=str(path))
    link = session.folder / "as.json"
    link.symlink_to("a.ipynb")
    for given in ({"file_path": str(path)}, {"file_path": str(link)}):
        written = await session.expect_failure(WRITE, content=EMPTY, **given)
        edited = await session.expect_failure(EDIT, old_string="cells", new_string="x", **given)
        assert written == edited
        assert written.code == 9
        assert "change its cells with NotebookEdit" in written.message
    assert f"{link} leads to {path}, which is a notebook" in written.message


async def test_a_broken_notebook_says_how_to_mend_it(session: Session) -> None:
    path = session.folder / "a.ipynb"
    path.write_text('{"cells": [')
    for failure in (
        await session.expect_failure(READ, file_path=str(path)),
        await session.expect_failure(WRITE, file_path=str(path), content=EMPTY),
        await session.expect_failure(NOTEBOOK, notebook_path=str(path), cell_id="a", new_source="x"),
    ):
        assert "its JSON is broken" in failure.message
        assert "mend it with a command" in failure.message
        assert "write it anew with Write" in failure.message
