"""Notebooks: cells with their sources and what they printed and drew."""

import base64
import os
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ostler.tools.formats import notebook_json
from ostler.tools.formats.image import Picture, picture, pixels_of
from ostler.tools.formats.image_file import SMALL_PIXELS, load_picture_of
from ostler.tools.formats.terminal_text import for_the_model
from ostler.tools.fs.text_file import TextFile, TooLarge, Unreadable, load, size_in_words

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
"""Of all of them together, as they are sent; the last one may go beyond."""
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS: Final = ("text/plain", "text/markdown", "text/latex", "text/html", "application/json")
"""What is shown of an output that comes in several forms: the first that it has."""
_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Of characters: JSON can spell them alone, but nobody can write them."""

WAY_TO_MEND: Final = (
    "Look at its text and mend it with a command, as `cat` and `sed`; "
    "or move it away with `mv`, and write it anew with Write."
)

Json = dict[str, Any]


class Broken(Unreadable):
    """It should be a notebook, and is none."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a cell printed or drew."""

    kind: str
    text: str
    pictures: list[Picture]
    large: list["LargePicture"] = field(default_factory=list)
    """Pictures that a process of their own has to open."""

    def with_picture(self, picture: Picture) -> "Shown":
        return replace(self, pictures=[*self.pictures, picture])

    def with_note(self, note: str) -> "Shown":
        return replace(self, text=f"{self.text}\n({note})" if self.text else f"({note})")


@dataclass(frozen=True, slots=True)
class LargePicture:
    """A picture that is not opened yet."""

    form: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is shown."""

    id: str
    kind: str
    source: str
    run: int | None
    outputs: list[Shown]


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
                return text_of(found[name])
        return "python"

    @property
    def has_ids(self) -> bool:
        minor = self.content.get("nbformat_minor")
        return isinstance(minor, int) and minor >= ID_SINCE


def load_notebook(path: str) -> Notebook:
    """Checks as much as is used. Raises Unreadable and OSError."""
    size = os.stat(path).st_size
    if size > MAX_BYTES:
        words = f"{size_in_words(size)}; the limit is {size_in_words(MAX_BYTES)}"
        raise TooLarge(f"{path} is too large for a notebook ({words}).")
    return _parsed(path, load(path))


def _parsed(path: str, file: TextFile) -> Notebook:
    if not file.text.strip():
        raise Unreadable(f"{path} is empty: there is no notebook in it yet. Write creates it.")
    try:
        return Notebook(file, check_notebook(path, file.text))
    except Broken as error:
        raise Broken(f"{error} {WAY_TO_MEND}") from None


def check_notebook(path: str, text: str) -> Json:
    """What the text holds, if it is a notebook. Raises Unreadable."""
    _refuse_too_much(path, text)
    try:
        content: Json = notebook_json.parsed(text)
    except (ValueError, RecursionError) as error:
        raise Broken(f"{path} is no valid notebook: its JSON is broken ({error}).") from None
    if notebook_json.is_deep(content):
        depth = notebook_json.MAX_DEPTH
        raise Unreadable(f"{path} cannot be used as a notebook: its JSON is nested deeper than {depth}.")
    _check(path, content)
    outputs = sum(map(_count_outputs, content["cells"]))
    if outputs > MAX_OUTPUTS:
        raise TooLarge(f"{path} is too large for a notebook ({outputs} outputs; the limit is {MAX_OUTPUTS}).")
    return content


def _refuse_too_much(path: str, text: str) -> None:
    # Counted before they are made: to let go of half a million of them holds everybody up.
    cells = text.count('"cell_type"')
    if cells > MAX_CELLS:
        raise TooLarge(f"{path} is too large for a notebook ({cells} cells; the limit is {MAX_CELLS}).")
    if (what := notebook_json.too_much(text)) is not None:
        raise TooLarge(
            f"{path} is too large for a notebook ({what}). "
            "Take a part of it with a command, or clear its outputs, as with `jupyter nbconvert --clear-output`."
        )


def _check(path: str, content: object) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("nbformat"), int):
        raise Broken(f"{path} is no notebook: it does not say which nbformat it has.")
    if content["nbformat"] != FORMAT:
        raise Unreadable(
            f"{path} is a notebook of nbformat {content['nbformat']}, and only {FORMAT} is known here. "
            "Convert it first, as with `jupyter nbconvert --to notebook`."
        )
    if not isinstance(content.get("cells"), list):
        raise Broken(f"{path} is no valid notebook: it has no list of cells.")
    for place, cell in enumerate(content["cells"]):
        if not _is_cell(cell):
            raise Broken(f"{path} is no valid notebook: cell {place} has no type or no source.")


def _count_outputs(cell: Json) -> int:
    outputs = cell.get("outputs")
    return len(outputs) if isinstance(outputs, list) else 0


def _is_cell(cell: object) -> bool:
    return isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and _is_text(cell.get("source"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def text_of(value: object) -> str:
    """A text, which may be stored as a list of its lines, as it can be shown."""
    if isinstance(value, list):
        value = "".join(each for each in value if isinstance(each, str))
    return _writable(value) if isinstance(value, str) else ""


def _writable(text: str) -> str:
    try:
        text.encode()  # which takes a tenth of the time that the expression needs
    except UnicodeEncodeError:
        return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def id_of(cell: Json, place: int) -> str:
    """Its own; cells of old notebooks have none, and go by their place, counted from 0."""
    own = cell.get("id")
    return (text_of(own) if isinstance(own, str) else "") or f"cell-{place}"


def places_of(cells: list[Json], cell_id: str) -> list[int]:
    """Where the cells of that id are: one, unless the notebook is damaged."""
    return [place for place, cell in enumerate(cells) if id_of(cell, place) == cell_id]


def shown_cells(notebook: Notebook, first: int, count: int) -> list[Cell]:
    """Some of the cells, counted from 1, as they are shown. Decodes pictures: not on the event loop."""
    room = _Room()
    wanted = list(enumerate(notebook.cells))[first - 1 : first - 1 + count]
    return [_cell(cell, place, room) for place, cell in wanted]


@dataclass(slots=True)
class _Room:
    """For pictures, in all cells of a call together."""

    left: int = MAX_PICTURES
    chars: int = MAX_PICTURE_CHARS


def _cell(cell: Json, place: int, room: _Room) -> Cell:
    outputs = cell.get("outputs")
    run = cell.get("execution_count")
    return Cell(
        id_of(cell, place),
        text_of(cell["cell_type"]),
        text_of(cell["source"]),
        run if isinstance(run, int) else None,
        [_output(each, room) for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else [],
    )


def _output(output: Json, room: _Room) -> Shown:
    kind = text_of(output.get("output_type")) or "unknown"
    match kind:
        case "stream":
            return Shown(text_of(output.get("name")) or kind, _cut(text_of(output.get("text"))), [])
        case "error":
            traceback = output.get("traceback")
            words = "\n".join(text_of(line) for line in traceback) if isinstance(traceback, list) else ""
            words = words or f"{text_of(output.get('ename'))}: {text_of(output.get('evalue'))}"
            return Shown(kind, _cut(words), [])
        case _:
            data = output.get("data")
            return _bundle(kind, data if isinstance(data, dict) else {}, room)


def _bundle(kind: str, data: Json, room: _Room) -> Shown:
    """One thing in several forms."""
    pictures: list[Picture] = []
    large: list[LargePicture] = []
    notes: list[str] = []
    for form in _PICTURES:
        if form in data:
            found = _picture(form, text_of(data[form]), room)
            match found:
                case Picture():
                    pictures.append(found)
                case LargePicture():
                    large.append(found)
                case str():
                    notes.append(f"({found})")
    words = next((form for form in _TEXTS if form in data), None)
    if words is not None:
        value = data[words]
        notes.insert(0, _cut(text_of(value if _is_text(value) else notebook_json.written(value))))
    elif not pictures and not large and not notes:
        notes.append(text_of(f"(not shown: {', '.join(map(str, data)) or 'nothing'})"[:500]))
    return Shown(kind, "\n".join(notes), pictures, large)


def _picture(form: str, encoded: str, room: _Room) -> Picture | LargePicture | str:
    """The picture, or why it is not shown."""
    if room.left <= 0 or room.chars <= 0:
        return f"a picture is left out: {MAX_PICTURES - room.left} are shown already"
    try:
        data = base64.b64decode(encoded)
        if pixels_of(f"The {form}", data) > SMALL_PIXELS:
            room.left -= 1
            return LargePicture(form, data)
        found = picture(f"The {form}", data)
    except Unreadable as error:
        return str(error)
    except ValueError:
        return f"The {form} is damaged: it is no base64."
    room.left -= 1
    room.chars -= len(found.data)
    return found


async def with_large_pictures(cells: list[Cell]) -> list[Cell]:
    """The cells with what could not be opened on a thread, one after the other: each takes a process."""
    room = _Room()
    room.chars -= sum(len(each.data) for cell in cells for output in cell.outputs for each in output.pictures)
    return [replace(cell, outputs=[await _opened(output, room) for output in cell.outputs]) for cell in cells]


async def _opened(output: Shown, room: _Room) -> Shown:
    for each in output.large:
        if room.chars <= 0:
            output = output.with_note("a picture is left out: those that are shown are large enough")
            continue
        try:
            found = await load_picture_of(f"The {each.form}", each.data)
        except (Unreadable, OSError) as error:
            output = output.with_note(str(error))
            continue
        room.chars -= len(found.data)
        output = output.with_picture(found)
    return replace(output, large=[])


def _cut(text: str) -> str:
    """Without colours, and without the end of what is long."""
    text = for_the_model(text).rstrip("\n")
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:MAX_OUTPUT_CHARS]}\n… (cut: {len(text) - MAX_OUTPUT_CHARS} more characters)"
