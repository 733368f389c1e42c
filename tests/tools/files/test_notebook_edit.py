"""NotebookEdit: one cell changes, and nothing else of the notebook."""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import nbformat.v4
import pytest

from ostler.tools.call_subject import find_path
from ostler.tools.files.editing import read_state
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.services import Diagnostic
from ostler.tools.tool import Allow, AskFirst, Failure, FileChanged, Refuse, ToolResult
from tests.support.tool_calls import Session, read_file

pytestmark = pytest.mark.anyio
READ, EDIT = Read(), NotebookEdit()

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Title\n", "ärger"]},
    {
        "cell_type": "code",
        "execution_count": 7,
        "id": "work",
        "metadata": {"tags": ["x"]},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}],
        "source": ["print(1)"],
    },
    {"cell_type": "raw", "id": "rest", "metadata": {}, "source": []},
]


def build_notebook(cells: list[dict[str, Any]] = CELLS, minor: int = 5) -> dict[str, Any]:
    language = {"language_info": {"name": "python", "version": "3.11"}}
    return {"cells": cells, "metadata": language, "nbformat": 4, "nbformat_minor": minor}


def build_cells_without_ids() -> list[dict[str, Any]]:
    return [{key: value for key, value in cell.items() if key != "id"} for cell in CELLS]


def dump_notebook(content: dict[str, Any], indent: int | str | None = 1) -> str:
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


async def write_and_read(session: Session, content: dict[str, Any] | str | None = None) -> str:
    """Writes a notebook and reads it in the session."""
    path = session.folder / "a.ipynb"
    text = content if isinstance(content, str) else dump_notebook(content or build_notebook())
    path.write_bytes(text.encode())
    await session.expect_result(READ, file_path=str(path))
    return str(path)


def load_notebook(path: str) -> dict[str, Any]:
    """The content of the notebook, which nbformat must find valid."""
    loaded = nbformat.read(path, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    nbformat.validate(loaded)
    content: dict[str, Any] = json.loads(load_text(path))
    return content


def load_text(path: str) -> str:
    return Path(path).read_bytes().decode()


async def test_a_cell_is_replaced_and_loses_what_it_printed(session: Session) -> None:
    path = await write_and_read(session)
    result = await session.expect_result(EDIT, notebook_path=path, cell_id="work", new_source="print(2)\nprint(3)\n")
    wanted = json.loads(dump_notebook(build_notebook()))
    wanted["cells"][1] |= {"source": ["print(2)\n", "print(3)\n"], "outputs": [], "execution_count": None}
    assert load_notebook(path) == wanted
    assert load_text(path) == dump_notebook(wanted)
    assert EDIT.render(result.output) == [{"type": "text", "text": f"Cell replaced: work (code) in {path}"}]


async def test_the_output_says_all(session: Session) -> None:
    path = await write_and_read(session)
    before = load_text(path)
    result = await session.expect_result(EDIT, notebook_path=path, cell_id="work", new_source="2")
    told = result.output.model_dump(mode="json")
    patch = told.pop("structured_patch")
    assert told == {
        "notebook_path": path,
        "file_path": path,
        "kind": "update",
        "edit_mode": "replace",
        "cell_id": "work",
        "cell_type": "code",
        "language": "python",
        "new_source": "2",
        "original": before,
        "original_left_out": False,
        "updated": load_text(path),
        "numbered": False,
        "git_diff": None,
        "user_modified": False,
        "diagnostics": None,
    }
    assert '-   "execution_count": 7,' in patch[0]["lines"]
    change = result.changes[0]
    assert isinstance(change, FileChanged)
    assert change.path == path
    assert change.patch is not None
    assert '+    "2"' in change.patch


async def test_a_cell_is_inserted_after_another_with_an_id_of_its_own(session: Session) -> None:
    path = await write_and_read(session)
    given = {"notebook_path": path, "edit_mode": "insert", "cell_id": "title", "cell_type": "code"}
    result = await session.expect_result(EDIT, new_source="x = 1", **given)
    cells = load_notebook(path)["cells"]
    new_id = result.output.cell_id
    assert [cell["id"] for cell in cells] == ["title", new_id, "work", "rest"]
    assert cells[1] == {
        "cell_type": "code", "execution_count": None, "id": new_id, "metadata": {}, "outputs": [], "source": ["x = 1"],
    }  # fmt: skip
    assert len(new_id) == 8
    assert EDIT.render(result.output)[0]["text"] == f"Cell inserted: {new_id} (code) in {path}"
    again = await session.expect_result(EDIT, new_source="x = 1", **given)
    assert again.output.cell_id != new_id
    load_notebook(path)


async def test_without_a_cell_it_is_inserted_first(session: Session) -> None:
    path = await write_and_read(session)
    await session.expect_result(EDIT, notebook_path=path, edit_mode="insert", cell_type="markdown", new_source="")
    first = load_notebook(path)["cells"][0]
    assert (first["cell_type"], first["source"], set(first)) == (
        "markdown", [], {"cell_type", "id", "metadata", "source"},
    )  # fmt: skip


async def test_a_cell_is_inserted_into_an_empty_notebook(session: Session) -> None:
    path = await write_and_read(session, build_notebook([]))
    await session.expect_result(EDIT, notebook_path=path, edit_mode="insert", cell_type="code", new_source="a\nb")
    assert load_notebook(path)["cells"][0]["source"] == ["a\n", "b"]


async def test_a_cell_is_deleted(session: Session) -> None:
    path = await write_and_read(session)
    result = await session.expect_result(EDIT, notebook_path=path, edit_mode="delete", cell_id="work", new_source="")
    assert [cell["id"] for cell in load_notebook(path)["cells"]] == ["title", "rest"]
    assert (result.output.cell_id, result.output.cell_type) == ("work", "code")
    assert EDIT.render(result.output)[0]["text"] == f"Cell deleted: work (code) in {path}"


async def test_a_cell_can_become_one_of_another_type(session: Session) -> None:
    path = await write_and_read(session)
    await session.expect_result(EDIT, notebook_path=path, cell_id="work", cell_type="markdown", new_source="words")
    await session.expect_result(EDIT, notebook_path=path, cell_id="title", cell_type="code", new_source="1")
    title, work, _ = load_notebook(path)["cells"]
    assert work == {"cell_type": "markdown", "id": "work", "metadata": {"tags": ["x"]}, "source": ["words"]}
    assert (title["cell_type"], title["outputs"], title["execution_count"]) == ("code", [], None)


async def test_cells_of_old_notebooks_go_by_their_place_and_get_no_ids(session: Session) -> None:
    path = await write_and_read(session, build_notebook(build_cells_without_ids(), minor=4))
    result = await session.expect_result(EDIT, notebook_path=path, cell_id="cell-1", new_source="2")
    assert EDIT.render(result.output)[0]["text"] == f"Cell replaced: cell-1 (code) in {path}"
    result = await session.expect_result(
        EDIT, notebook_path=path, edit_mode="insert", cell_id="cell-0", cell_type="code", new_source="new"
    )
    assert EDIT.render(result.output)[0]["text"] == (
        f"Cell inserted: cell-1 (code) in {path}\n(The cells have no ids, and those after it are counted anew.)"
    )
    await session.expect_result(EDIT, notebook_path=path, edit_mode="delete", cell_id="cell-0", new_source="")
    cells = load_notebook(path)["cells"]
    assert [cell["source"] for cell in cells] == [["new"], ["2"], []]
    assert not any("id" in cell for cell in cells)


@pytest.mark.parametrize("indent", [1, 2, 4, "\t", None])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
async def test_indentation_and_end_stay_as_they_were(session: Session, indent: int | str | None, end: str) -> None:
    text = json.dumps(build_notebook(), indent=indent, ensure_ascii=False) + end
    path = await write_and_read(session, text)
    await session.expect_result(EDIT, notebook_path=path, cell_id="rest", new_source="x")
    wanted = build_notebook([*CELLS[:2], {**CELLS[2], "source": ["x"]}])
    assert load_text(path) == json.dumps(wanted, indent=indent, ensure_ascii=False) + end


async def test_line_ends_escapes_and_compact_form_stay_as_they_were(session: Session) -> None:
    wanted = build_notebook([*CELLS[:2], {**CELLS[2], "source": ["x"]}])
    forms: list[Callable[[Any], str]] = [
        lambda content: json.dumps(content, indent=1, ensure_ascii=True) + "\n",
        lambda content: json.dumps(content, separators=(",", ":"), ensure_ascii=False),
        lambda content: dump_notebook(content).replace("\n", "\r\n"),
        lambda content: "\ufeff" + dump_notebook(content),
    ]
    for form in forms:
        path = await write_and_read(session, form(build_notebook()))
        await session.expect_result(EDIT, notebook_path=path, cell_id="rest", new_source="x")
        assert load_text(path) == form(wanted)


async def test_sources_that_are_texts_stay_texts(session: Session) -> None:
    cells = [{**cell, "source": "".join(cell["source"])} for cell in CELLS]
    path = await write_and_read(session, build_notebook(cells))
    await session.expect_result(EDIT, notebook_path=path, cell_id="work", new_source="a\nb")
    assert load_notebook(path)["cells"][1]["source"] == "a\nb"


async def test_each_failure_has_its_message_and_code(session: Session) -> None:
    path = str(session.folder / "a.ipynb")

    async def fails(code: int, message: str, **given: Any) -> None:
        failure = await session.expect_failure(
            EDIT, **{"notebook_path": path, "new_source": "x", "cell_id": "work", **given}
        )
        assert (failure.code, failure.message) == (code, message)

    await fails(1, f"The file {path} does not exist.")
    (session.folder / "a.ipynb").write_text(dump_notebook(build_notebook()))
    await fails(2, f"{path} has not been read in this session. Read it first.")
    await session.expect_result(READ, file_path=path)
    there = "Its cells are: title, work, rest."
    await fails(5, f"{path} has no cell 'wrong'. {there}", cell_id="wrong")
    await fails(5, f"{path} has no cell 'cell-1'. {there}", cell_id="cell-1")
    await fails(5, f"{path} has no cell 'wrong'. {there}", cell_id="wrong", edit_mode="insert", cell_type="code")
    await fails(8, "The path 'a.ipynb' is relative: give it absolute, from / on.", notebook_path="a.ipynb")
    await fails(9, "/a.py is no notebook (.ipynb): change it with Edit.", notebook_path="/a.py")
    await fails(11, "cell_id is needed to replace a cell.", cell_id=None)
    await fails(11, "cell_id is needed to delete a cell.", cell_id=None, edit_mode="delete")
    await fails(12, "cell_type is needed to insert a cell: code or markdown.", edit_mode="insert")
    same = {"cell_id": "rest", "new_source": ""}
    await fails(4, f"The cell rest of {path} is like that already.", **same)
    (session.folder / "a.ipynb").write_text(dump_notebook(build_notebook(CELLS[:1])))
    await fails(3, f"{path} has changed since it was read. Read it again.")
    (session.folder / "a.ipynb").write_text("{")
    failure = await session.expect_failure(EDIT, notebook_path=path, cell_id="work", new_source="x")
    assert "its JSON is broken" in failure.message


async def test_cells_of_one_id_are_not_guessed_at(session: Session) -> None:
    path = await write_and_read(session, build_notebook([CELLS[0], {**CELLS[0]}]))
    failure = await session.expect_failure(EDIT, notebook_path=path, cell_id="title", new_source="x")
    assert (failure.code, failure.message) == (6, f"2 cells of {path} have the id 'title'.")


async def test_a_notebook_that_is_too_large_is_refused(session: Session) -> None:
    path = session.folder / "a.ipynb"
    with path.open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    failure = await session.expect_failure(EDIT, notebook_path=str(path), cell_id="a", new_source="x")
    assert failure.code == 10


@pytest.mark.parametrize("given", [{"edit_mode": "move"}, {"cell_type": "raw"}, {"new_source": None}, {"other": 1}])
def test_other_inputs_are_errors_of_the_schema(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        EDIT.parse({"notebook_path": "/a.ipynb", "new_source": "", **given})


@pytest.mark.parametrize("indent", [1, None])
async def test_a_notebook_with_the_data_of_a_large_chart_is_changed(session: Session, indent: int | None) -> None:
    data = [0.1 + number for number in range(10_000)] + [1e300, -7, 10**40, None, "ä"]
    chart = {
        **CELLS[1],
        "outputs": [{"data": {"application/json": data}, "metadata": {}, "output_type": "display_data"}],
    }
    content = build_notebook([CELLS[0], chart, CELLS[2]])
    path = await write_and_read(session, dump_notebook(content, indent))
    await session.expect_result(EDIT, notebook_path=path, cell_id="rest", new_source="x")
    wanted = build_notebook([CELLS[0], chart, {**CELLS[2], "source": ["x"]}])
    assert load_text(path) == dump_notebook(wanted, indent)


async def test_a_notebook_that_has_grown_too_large_since_it_was_read_is_not_changed(session: Session) -> None:
    path = await write_and_read(session)
    grown = dump_notebook({**build_notebook(), "metadata": {"x": [1] * 500_001}}, None)
    (session.folder / "a.ipynb").write_text(grown)
    failure = await session.expect_failure(EDIT, notebook_path=path, cell_id="rest", new_source="x")
    assert failure.code == read_state.TOO_LARGE
    assert "its JSON holds more than 500000 values" in failure.message
    assert load_text(path) == grown


async def test_a_part_that_was_read_is_enough_and_only_the_time_may_move(session: Session) -> None:
    path = session.folder / "a.ipynb"
    path.write_text(dump_notebook(build_notebook()))
    await session.expect_result(READ, file_path=str(path), limit=1)
    os.utime(path, ns=(1, 1))
    await session.expect_result(EDIT, notebook_path=str(path), cell_id="rest", new_source="x")
    shown = await session.expect_text(READ, file_path=str(path))
    assert '<cell id="rest" type="raw">\nx\n</cell>' in shown


async def test_mode_and_link_of_the_file_are_kept_and_nothing_is_left_behind(session: Session) -> None:
    path = await write_and_read(session)
    os.chmod(path, 0o640)
    link = session.folder / "link.ipynb"
    link.symlink_to("a.ipynb")
    await session.expect_result(EDIT, notebook_path=str(link), cell_id="rest", new_source="x")
    assert link.is_symlink()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    assert sorted(os.listdir(session.folder)) == ["a.ipynb", "link.ipynb"]


async def test_a_change_made_while_somebody_was_asked_is_not_overwritten(session: Session) -> None:
    path = await write_and_read(session)
    context = session.make_context()
    given = EDIT.parse({"notebook_path": path, "cell_id": "rest", "new_source": "x"})
    assert isinstance(await EDIT.check_permission(given, context), AskFirst)
    (session.folder / "a.ipynb").write_text(dump_notebook(build_notebook(CELLS[:1])))
    result = await EDIT.run(given, context)
    assert isinstance(result, Failure)
    assert result.code == 3
    assert load_text(path) == dump_notebook(build_notebook(CELLS[:1]))


async def test_it_is_asked_for_with_the_change_and_allowed_where_edits_are(session: Session, tmp_path: Path) -> None:
    path = await write_and_read(session)
    given = {"notebook_path": path, "cell_id": "rest", "new_source": "x"}
    check = await session.check(EDIT, **given)
    assert isinstance(check, AskFirst)
    assert check.message == f"Change {path}?"
    assert check.diff is not None
    assert '+    "x"' in check.diff
    session.change_view(mode="acceptEdits")
    assert isinstance(await session.check(EDIT, **given), Allow)
    outside = {**given, "notebook_path": str(tmp_path / "b.ipynb")}
    assert isinstance(await session.check(EDIT, **outside), AskFirst)
    session.change_view(mode="acceptEdits", home=str(session.folder))
    assert isinstance(await session.check(EDIT, **given), Refuse)


async def test_it_says_what_it_is(session: Session) -> None:
    given = EDIT.parse({"notebook_path": "/a.ipynb", "cell_id": "c", "new_source": "x"})
    assert EDIT.deferred
    assert (EDIT.max_result_chars, EDIT.interrupt) == (100_000, "block")
    assert find_path(EDIT, given) == "/a.ipynb"
    assert EDIT.activity(given) == "edit"
    assert EDIT.summary(given) == "Replace cell c in /a.ipynb"
    assert not EDIT.is_destructive(given)
    gone = given.model_copy(update={"edit_mode": "delete"})
    assert EDIT.is_destructive(gone)
    assert EDIT.classifier_text(given) == "/a.ipynb\nreplace c\nx"


async def test_numbers_elsewhere_in_the_file_stay_as_they_are_written(session: Session) -> None:
    numbers = '"a": 1.10, "b": 1E3, "c": -0.0, "d": 123456789012345678901234567890, "e": [1e400, 2.50], "f": true'
    cell = '{"cell_type": "markdown", "id": "m", "metadata": {}, "source": "old"}'
    text = f'{{"cells": [{cell}], "metadata": {{{numbers}}}, "nbformat": 4, "nbformat_minor": 5}}'
    path = session.folder / "n.ipynb"
    path.write_text(text)
    await session.expect_result(READ, file_path=str(path))
    await session.expect_result(EDIT, notebook_path=str(path), cell_id="m", new_source="new")
    assert path.read_text() == text.replace('"old"', '"new"')


WRITE = Write()


NOTEBOOK = NotebookEdit()


async def test_notebook_edit_tells_what_a_person_changed_and_what_an_editor_says(session: Session) -> None:
    class Editor:
        async def collect(self, path: str, place: str) -> list[Diagnostic]:
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
    path = await read_file(session, "a.ipynb", json.dumps(content))
    context = replace(session.make_context(diagnostics=Editor()), changed_by_person=True)
    ran = await session.call(NOTEBOOK, {"notebook_path": path, "cell_id": "c", "new_source": "b"}, context)
    assert isinstance(ran, ToolResult)
    assert ran.output.user_modified
    assert NOTEBOOK.render(ran.output)[0]["text"] == (
        f"Cell replaced: c (code) in {path}\n(The person changed the text before it was written.)\n"
        "Diagnostics now:\nerror 1:2: a.ipynb is wrong"
    )
