"""Read, of what is no plain text: images, notebooks and PDF documents."""

import os
from functools import partial
from typing import Final

import anyio

from ostler.tools.context import ToolContext
from ostler.tools.files.editing.read_state import Range
from ostler.tools.files.reading.output import (
    CellOutput,
    DocumentOutput,
    ImageOutput,
    NotebookOutput,
    PictureOutput,
    ReadOutput,
)
from ostler.tools.files.reading.shown import is_shown, remember, too_long, unchanged
from ostler.tools.formats import pdf
from ostler.tools.formats.image_file import load_picture
from ostler.tools.formats.notebook import load_notebook, shown_cells, with_large_pictures
from ostler.tools.formats.pdf import Pages
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Failure, Ran

_notebooks: Final = anyio.CapacityLimiter(2)
"""Each of them may take half a gigabyte."""
_AROUND: Final = '<output kind="">\n\n</output>\n'
"""What is shown with each source and output, however short it is: thousands of empty ones are long, too."""
_ALL: Final = (1, 1)
"""An image has only one part."""


async def read_image(path: str, place: str, status: os.stat_result, context: ToolContext) -> Ran[ReadOutput]:
    """Raises Unreadable and OSError, as do the others."""
    if is_shown(place, status, _ALL, context):
        return unchanged(path, "This image is", 1)
    found = await load_picture(place)
    remember(place, found.status, found.digest, 1, _ALL, context)
    image = PictureOutput.of(found.picture)
    return Ran(ImageOutput(file_path=path, file_bytes=found.status.st_size, image=image))


async def read_notebook(
    path: str, place: str, first: int, count: int | None, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    """`count` cells from cell `first` on."""
    async with _notebooks:
        return await _notebook(path, place, first, count, context)


async def _notebook(
    path: str, place: str, first: int, count: int | None, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    notebook = await read_in_thread(load_notebook, place)
    file, total = notebook.file, len(notebook.cells)
    note_shown = partial(remember, place, file.status, file.digest, total, context=context)
    if total == 0:
        note_shown(None)
        return Ran(NotebookOutput(file_path=path, language=notebook.language, warning="The notebook has no cells."))
    if first > total:
        words = f"The notebook has only {total} cells: cell {first} is past its end."
        return Ran(NotebookOutput(file_path=path, start_cell=first, total_cells=total, warning=words))
    shown = (first, min(first + (count or total) - 1, total))
    if is_shown(place, file.status, shown, context):
        return unchanged(path, "These cells are", total)
    cells = await with_large_pictures(await read_in_thread(shown_cells, notebook, first, shown[1] - first + 1))
    if too_long(
        _AROUND.join(text for cell in cells for text in (cell.source, *(o.text for o in cell.outputs))), context
    ):
        return Failure(_too_long_cells(path, shown, total, context.surroundings.read_tokens))
    note_shown(shown)
    return Ran(
        NotebookOutput(
            file_path=path,
            language=notebook.language,
            cells=[CellOutput.of(cell) for cell in cells],
            start_cell=first,
            total_cells=total,
        )
    )


def _too_long_cells(path: str, shown: Range, total: int, tokens: int) -> str:
    words = f"Cells {shown[0]}-{shown[1]} of {total} in {path} are more than {tokens} tokens."
    if shown[0] == shown[1]:
        return f"{words} Find the place with Grep, or take a part of the file with a command."
    return (
        f"{words} Read fewer with offset and limit, which count the cells of a notebook, or find the place with Grep."
    )


async def read_document(
    path: str, place: str, status: os.stat_result, pages: Pages | None, context: ToolContext
) -> Ran[ReadOutput] | Failure:
    before = context.reads.get(place)
    if before is not None and before.total_lines:
        wanted = (pages or Pages(1, None)).within(before.total_lines)
        if wanted[0] <= before.total_lines and is_shown(place, status, wanted, context):
            return unchanged(path, "These pages are", before.total_lines)
    document = await pdf.load_document(place, pages)
    if not document.pages:
        return Failure(_why_no_pages(path, document.total, pages))
    if too_long("\n".join(page.text for page in document.pages), context):
        first, last = document.pages[0].number, document.pages[-1].number
        words = f"Pages {first}-{last} of {path} are more than {context.surroundings.read_tokens} tokens."
        return Failure(f"{words} Read fewer with pages.")
    shown = (document.pages[0].number, document.pages[-1].number)
    remember(place, document.status, document.digest, document.total, shown, context)
    return Ran(DocumentOutput.of(path, document, whole=pages is None))


def _why_no_pages(path: str, total: int, pages: Pages | None) -> str:
    if pages is None:
        return (
            f"{path} has {total} pages, and only documents of up to {pdf.WHOLE_PAGES} are shown whole. "
            f"Say which ones with pages, like '1-{pdf.WHOLE_PAGES}', at most {pdf.MAX_PAGES} in a call."
        )
    if pages.first > total:
        return f"{path} has only {total} pages: page {pages.first} is past its end."
    return (
        f"Pages {pages.first} to {total} of {path} are more than {pdf.MAX_PAGES}, which is the most in a call. "
        f"Say where to end, like '{pages.first}-{pages.first + pdf.MAX_PAGES - 1}'."
    )
