"""Loads Jupyter notebooks, checks them, and renders their cells: sources, and outputs with pictures."""

import base64
import os
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ostler.protocol.patterns import compile_later
from ostler.tools.formats import notebook_json
from ostler.tools.formats.image import Picture, build_picture, count_pixels
from ostler.tools.formats.image_file import SMALL_PIXELS, load_picture_bytes
from ostler.tools.formats.terminal_text import clean_for_model
from ostler.tools.fs.text_file import TextFile, TooLarge, Unreadable, format_size, load

FORMAT: Final = 4
"""The only major version that programs still write."""
ID_SINCE: Final = 5
"""The minor version from which on cells have ids."""
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_CELLS: Final = 20_000
MAX_OUTPUTS: Final = 50_000
MAX_OUTPUT_CHARS: Final = 10_000
MAX_PICTURES: Final = 20
MAX_PICTURE_CHARS: Final = 8 * 1024 * 1024
"""Base64 characters of all pictures together; the last one may exceed it."""
_PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/latex", "text/html", "application/json")
"""The media types of an output's text, by preference: the first that it has is shown."""
_SURROGATES: Final = compile_later("[\ud800-\udfff]")
"""Lone surrogates: JSON can hold them, but they cannot be encoded."""

REPAIR_HINT: Final = (
    "Look at its text and mend it with a command, as `cat` and `sed`; "
    "or move it away with `mv`, and write it anew with Write."
)

Json = dict[str, Any]


class BrokenNotebook(Unreadable):
    """The file should be a notebook, and is not a valid one."""


@dataclass(frozen=True, slots=True)
class RenderedOutput:
    """What a cell printed or drew."""

    kind: str
    text: str
    pictures: list[Picture]
    large: list["LargePicture"] = field(default_factory=list)
    """Pictures that a worker process has to decode."""

    def with_picture(self, picture: Picture) -> "RenderedOutput":
        return replace(self, pictures=[*self.pictures, picture])

    def with_note(self, note: str) -> "RenderedOutput":
        return replace(self, text=f"{self.text}\n({note})" if self.text else f"({note})")


@dataclass(frozen=True, slots=True)
class LargePicture:
    """A picture that is not decoded yet."""

    form: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is shown."""

    id: str
    kind: str
    source: str
    execution_count: int | None
    outputs: list[RenderedOutput]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook, and the file that it was read from."""

    file: TextFile
    content: Json

    @property
    def cells(self) -> list[Json]:
        cells: list[Json] = self.content["cells"]
        return cells

    @property
    def language(self) -> str:
        metadata = self.content.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        for part, name in (("language_info", "name"), ("kernelspec", "language")):
            found = metadata.get(part)
            if isinstance(found, dict) and isinstance(found.get(name), str):
                return extract_text(found[name])
        return "python"

    @property
    def has_ids(self) -> bool:
        minor = self.content.get("nbformat_minor")
        return isinstance(minor, int) and minor >= ID_SINCE


def load_notebook(path: str) -> Notebook:
    """Loads a notebook, and checks as much of it as is used. Raises Unreadable and OSError."""
    size = os.stat(path).st_size
    if size > MAX_BYTES:
        words = f"{format_size(size)}; the limit is {format_size(MAX_BYTES)}"
        raise TooLarge(f"{path} is too large for a notebook ({words}).")
    return _parse_notebook(path, load(path))


def _parse_notebook(path: str, file: TextFile) -> Notebook:
    if not file.text.strip():
        raise Unreadable(f"{path} is empty: there is no notebook in it yet. Write creates it.")
    try:
        return Notebook(file, check_notebook(path, file.text))
    except BrokenNotebook as error:
        raise BrokenNotebook(f"{error} {REPAIR_HINT}") from None


def check_notebook(path: str, text: str) -> Json:
    """Parses the text, and checks that it is a notebook. Raises Unreadable."""
    _refuse_too_much(path, text)
    try:
        content: Json = notebook_json.parse(text)
    except (ValueError, RecursionError) as error:
        raise BrokenNotebook(f"{path} is no valid notebook: its JSON is broken ({error}).") from None
    if notebook_json.is_deep(content):
        depth = notebook_json.MAX_DEPTH
        raise Unreadable(f"{path} cannot be used as a notebook: its JSON is nested deeper than {depth}.")
    _check_structure(path, content)
    outputs = sum(map(_count_outputs, content["cells"]))
    if outputs > MAX_OUTPUTS:
        raise TooLarge(f"{path} is too large for a notebook ({outputs} outputs; the limit is {MAX_OUTPUTS}).")
    return content


def _refuse_too_much(path: str, text: str) -> None:
    # Counted before they are parsed: to free half a million objects holds the interpreter's lock too long.
    cells = text.count('"cell_type"')
    if cells > MAX_CELLS:
        raise TooLarge(f"{path} is too large for a notebook ({cells} cells; the limit is {MAX_CELLS}).")
    if (what := notebook_json.find_excess(text)) is not None:
        raise TooLarge(
            f"{path} is too large for a notebook ({what}). "
            "Take a part of it with a command, or clear its outputs, as with `jupyter nbconvert --clear-output`."
        )


def _check_structure(path: str, content: object) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("nbformat"), int):
        raise BrokenNotebook(f"{path} is no notebook: it does not say which nbformat it has.")
    if content["nbformat"] != FORMAT:
        raise Unreadable(
            f"{path} is a notebook of nbformat {content['nbformat']}, and only {FORMAT} is known here. "
            "Convert it first, as with `jupyter nbconvert --to notebook`."
        )
    if not isinstance(content.get("cells"), list):
        raise BrokenNotebook(f"{path} is no valid notebook: it has no list of cells.")
    for place, cell in enumerate(content["cells"]):
        if not _is_cell(cell):
            raise BrokenNotebook(f"{path} is no valid notebook: cell {place} has no type or no source.")


def _count_outputs(cell: Json) -> int:
    outputs = cell.get("outputs")
    return len(outputs) if isinstance(outputs, list) else 0


def _is_cell(cell: object) -> bool:
    return isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and _is_text(cell.get("source"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def extract_text(value: object) -> str:
    """A text, which may be stored as a list of its lines, in a form that can be encoded."""
    if isinstance(value, list):
        value = "".join(each for each in value if isinstance(each, str))
    return _replace_surrogates(value) if isinstance(value, str) else ""


def _replace_surrogates(text: str) -> str:
    try:
        text.encode()  # takes a tenth of the time of the regular expression
    except UnicodeEncodeError:
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def get_cell_id(cell: Json, place: int) -> str:
    """The id of a cell; in old notebooks cells have none, and are numbered by position, from 0."""
    own = cell.get("id")
    return (extract_text(own) if isinstance(own, str) else "") or f"cell-{place}"


def find_cells(cells: list[Json], cell_id: str) -> list[int]:
    """Positions of the cells with that id: one, unless the notebook is damaged."""
    return [place for place, cell in enumerate(cells) if get_cell_id(cell, place) == cell_id]


def render_cells(notebook: Notebook, first: int, count: int) -> list[Cell]:
    """Renders `count` cells from cell `first` on, counted from 1. Decodes pictures: not on the event loop."""
    limits = _PictureLimits()
    wanted = list(enumerate(notebook.cells))[first - 1 : first - 1 + count]
    return [_render_cell(cell, place, limits) for place, cell in wanted]


@dataclass(slots=True)
class _PictureLimits:
    """How many more pictures may be shown in all cells of a call together."""

    pictures_left: int = MAX_PICTURES
    chars_left: int = MAX_PICTURE_CHARS


def _render_cell(cell: Json, place: int, limits: _PictureLimits) -> Cell:
    outputs = cell.get("outputs")
    run = cell.get("execution_count")
    return Cell(
        get_cell_id(cell, place),
        extract_text(cell["cell_type"]),
        extract_text(cell["source"]),
        run if isinstance(run, int) else None,
        [_render_output(each, limits) for each in outputs if isinstance(each, dict)]
        if isinstance(outputs, list)
        else [],
    )


def _render_output(output: Json, limits: _PictureLimits) -> RenderedOutput:
    kind = extract_text(output.get("output_type")) or "unknown"
    match kind:
        case "stream":
            return RenderedOutput(
                extract_text(output.get("name")) or kind, _clean_output(extract_text(output.get("text"))), []
            )
        case "error":
            traceback = output.get("traceback")
            words = "\n".join(extract_text(line) for line in traceback) if isinstance(traceback, list) else ""
            words = words or f"{extract_text(output.get('ename'))}: {extract_text(output.get('evalue'))}"
            return RenderedOutput(kind, _clean_output(words), [])
        case _:
            data = output.get("data")
            return _render_bundle(kind, data if isinstance(data, dict) else {}, limits)


def _render_bundle(kind: str, data: Json, limits: _PictureLimits) -> RenderedOutput:
    """Renders a MIME bundle: one output in several media types."""
    pictures: list[Picture] = []
    large: list[LargePicture] = []
    notes: list[str] = []
    for form in _PICTURE_TYPES:
        if form in data:
            found = _decode_picture(form, extract_text(data[form]), limits)
            match found:
                case Picture():
                    pictures.append(found)
                case LargePicture():
                    large.append(found)
                case str():
                    notes.append(f"({found})")
    words = next((form for form in _TEXT_TYPES if form in data), None)
    if words is not None:
        value = data[words]
        notes.insert(0, _clean_output(extract_text(value if _is_text(value) else notebook_json.serialize(value))))
    elif not pictures and not large and not notes:
        notes.append(extract_text(f"(not shown: {', '.join(map(str, data)) or 'nothing'})"[:500]))
    return RenderedOutput(kind, "\n".join(notes), pictures, large)


def _decode_picture(form: str, encoded: str, limits: _PictureLimits) -> Picture | LargePicture | str:
    """The picture, or why it is not shown."""
    if limits.pictures_left <= 0 or limits.chars_left <= 0:
        return f"a picture is left out: {MAX_PICTURES - limits.pictures_left} are shown already"
    try:
        data = base64.b64decode(encoded)
        if count_pixels(f"The {form}", data) > SMALL_PIXELS:
            limits.pictures_left -= 1
            return LargePicture(form, data)
        found = build_picture(f"The {form}", data)
    except Unreadable as error:
        return str(error)
    except ValueError:
        return f"The {form} is damaged: it is no base64."
    limits.pictures_left -= 1
    limits.chars_left -= len(found.data)
    return found


async def open_large_pictures(cells: list[Cell]) -> list[Cell]:
    """Decodes the pictures that are too large for a thread, one after the other: each in a worker process."""
    limits = _PictureLimits()
    limits.chars_left -= sum(len(each.data) for cell in cells for output in cell.outputs for each in output.pictures)
    return [replace(cell, outputs=[await _open_large(output, limits) for output in cell.outputs]) for cell in cells]


async def _open_large(output: RenderedOutput, limits: _PictureLimits) -> RenderedOutput:
    for each in output.large:
        if limits.chars_left <= 0:
            output = output.with_note("a picture is left out: those that are shown are large enough")
            continue
        try:
            found = await load_picture_bytes(f"The {each.form}", each.data)
        except (Unreadable, OSError) as error:
            output = output.with_note(str(error))
            continue
        limits.chars_left -= len(found.data)
        output = output.with_picture(found)
    return replace(output, large=[])


def _clean_output(text: str) -> str:
    """Removes terminal escapes, and cuts a long text."""
    text = clean_for_model(text).rstrip("\n")
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:MAX_OUTPUT_CHARS]}\n… (cut: {len(text) - MAX_OUTPUT_CHARS} more characters)"
