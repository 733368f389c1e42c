"""Replaces, inserts or deletes a cell, and serialises the notebook: everything else stays as it was written."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.protocol.patterns import compile_later
from ostler.tools.files.editing import read_state
from ostler.tools.formats import notebook_json
from ostler.tools.formats.notebook import Json, Notebook, find_cells, get_cell_id
from ostler.tools.tool import Failure

EditMode = Literal["replace", "insert", "delete"]
CellType = Literal["code", "markdown"]

CELL_NEEDED: Final = 11
TYPE_NEEDED: Final = 12
_INDENTED: Final = compile_later(r"\{(\r?\n)([ \t]*)\"")
_MAX_NAMED: Final = 20
"""How many cells a failure lists."""


@dataclass(frozen=True, slots=True)
class CellEdit:
    """The edit of one cell that a call asks for."""

    mode: EditMode
    cell_id: str | None
    source: str
    cell_type: CellType | None


@dataclass(frozen=True, slots=True)
class EditedNotebook:
    """The notebook after a change."""

    text: str
    cell_id: str
    cell_type: str


def check_edit(wanted: CellEdit) -> Failure | None:
    """Checks the edit by itself, whatever the notebook holds."""
    if wanted.mode != "insert" and not wanted.cell_id:
        return Failure(f"cell_id is needed to {wanted.mode} a cell.", CELL_NEEDED)
    if wanted.mode == "insert" and wanted.cell_type is None:
        return Failure("cell_type is needed to insert a cell: code or markdown.", TYPE_NEEDED)
    return None


def apply_edit(path: str, notebook: Notebook, wanted: CellEdit) -> EditedNotebook | Failure:
    """Applies the edit to `notebook.content`, in place."""
    place = _find_cell(path, notebook, wanted.cell_id) if wanted.cell_id else -1
    if isinstance(place, Failure):
        return place
    match wanted.mode:
        case "insert":
            place += 1
            cell = _build_cell(notebook, wanted)
            notebook.cells.insert(place, cell)
        case "replace":
            cell = notebook.cells[place]
            _replace_source(cell, wanted, as_lines=_stores_lines(notebook))
        case "delete":
            # Its id is that of the place where it was.
            cell_id = get_cell_id(notebook.cells[place], place)
            cell = notebook.cells.pop(place)
            return EditedNotebook(serialize_notebook(notebook), cell_id, cell["cell_type"])
    text = serialize_notebook(notebook)
    if text == notebook.file.text:
        return Failure(f"The cell {wanted.cell_id} of {path} is like that already.", read_state.SAME)
    return EditedNotebook(text, get_cell_id(cell, place), cell["cell_type"])


def _find_cell(path: str, notebook: Notebook, cell_id: str) -> int | Failure:
    found = find_cells(notebook.cells, cell_id)
    if len(found) == 1:
        return found[0]
    if found:
        return Failure(f"{len(found)} cells of {path} have the id {cell_id!r}.", read_state.AMBIGUOUS)
    ids = [get_cell_id(cell, place) for place, cell in enumerate(notebook.cells)]
    more = ", …" if len(ids) > _MAX_NAMED else ""
    there = f"Its cells are: {', '.join(ids[:_MAX_NAMED])}{more}." if ids else "It has no cells."
    return Failure(f"{path} has no cell {cell_id[:100]!r}. {there}", read_state.NOT_FOUND)


def _build_cell(notebook: Notebook, wanted: CellEdit) -> Json:
    """With its keys in the order in which Jupyter writes them."""
    cell: Json = {"cell_type": wanted.cell_type}
    if wanted.cell_type == "code":
        cell["execution_count"] = None
    if notebook.has_ids:
        cell["id"] = _generate_id(notebook, wanted)
    cell["metadata"] = {}
    if wanted.cell_type == "code":
        cell["outputs"] = []
    cell["source"] = _format_source(wanted.source, as_lines=_stores_lines(notebook))
    return cell


def _generate_id(notebook: Notebook, wanted: CellEdit) -> str:
    """Eight hexadecimal digits, as nbformat makes them; but the same each time, since a change is planned twice."""
    seed = f"{notebook.file.digest}\n{wanted.cell_id}\n{wanted.source}"
    taken = {cell.get("id") for cell in notebook.cells}
    number = 0
    while (made := hashlib.sha256(f"{number}\n{seed}".encode("utf-8", "replace")).hexdigest()[:8]) in taken:
        number += 1
    return made


def _replace_source(cell: Json, wanted: CellEdit, *, as_lines: bool) -> None:
    """Also drops the outputs: what the old source printed is not what the new one prints."""
    cell["source"] = _format_source(wanted.source, as_lines=as_lines)
    if wanted.cell_type is not None:
        cell["cell_type"] = wanted.cell_type
    if cell["cell_type"] == "code":
        cell["execution_count"] = None
        cell["outputs"] = []
        cell.pop("attachments", None)
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)
    cell.setdefault("metadata", {})


def _stores_lines(notebook: Notebook) -> bool:
    """Whether sources are lists of lines, as Jupyter writes them, or texts."""
    sources = [cell["source"] for cell in notebook.cells]
    return not sources or any(isinstance(source, list) for source in sources)


def _format_source(source: str, *, as_lines: bool) -> Any:
    if not as_lines:
        return source
    lines = source.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]]
    return kept + ([lines[-1]] if lines[-1] else [])


def serialize_notebook(notebook: Notebook) -> str:
    """Serialises in the style of the file: indentation, line ends, escapes, and the newline at its end."""
    before = notebook.file.text
    indented = _INDENTED.match(before.lstrip("\ufeff \t\r\n"))
    text = notebook_json.serialize(
        notebook.content,
        indent=indented[2] if indented else None,
        separators=None if indented or '": ' in before[:200] else (",", ":"),
        ensure_ascii=before.isascii() and "\\u" in before,
    )
    end = before[len(before.rstrip()) :]
    return (text.replace("\n", indented[1]) if indented else text) + end
