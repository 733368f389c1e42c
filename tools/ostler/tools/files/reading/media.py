"""Read for files that are not plain text: images, notebooks and PDF documents."""

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
from ostler.tools.files.reading.shown import is_shown, is_too_long, remember, report_unchanged
from ostler.tools.formats import pdf
from ostler.tools.formats.image_file import load_picture
from ostler.tools.formats.notebook import load_notebook, open_large_pictures, render_cells
from ostler.tools.formats.pdf import Pages
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Failure, ToolResult

_notebook_limiter: Final = anyio.CapacityLimiter(2)
"""Each notebook that is read may take half a gigabyte of memory."""
_OUTPUT_WRAPPER: Final = '<output kind="">\n\n</output>\n'
"""The markup around each source and output, which counts in the length: thousands of empty ones are long, too."""
_WHOLE_IMAGE: Final = (1, 1)
"""An image has only one part."""


async def read_image(path: str, place: str, status: os.stat_result, context: ToolContext) -> ToolResult[ReadOutput]:
    """Raises Unreadable and OSError, as do the others."""
    if is_shown(place, status, _WHOLE_IMAGE, context):
        return report_unchanged(path, "This image is", 1)
    found = await load_picture(place)
    remember(place, found.status, found.digest, 1, _WHOLE_IMAGE, context)
    image = PictureOutput.of(found.picture)
    return ToolResult(ImageOutput(file_path=path, file_bytes=found.status.st_size, image=image))


async def read_notebook(
    path: str, place: str, first: int, count: int | None, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    """Reads `count` cells from cell `first` on."""
    async with _notebook_limiter:
        return await _read_cells(path, place, first, count, context)


async def _read_cells(
    path: str, place: str, first: int, count: int | None, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    notebook = await read_in_thread(load_notebook, place)
    file, total = notebook.file, len(notebook.cells)
    note_shown = partial(remember, place, file.status, file.digest, total, context=context)
    if total == 0:
        note_shown(None)
        return ToolResult(
            NotebookOutput(file_path=path, language=notebook.language, warning="The notebook has no cells.")
        )
    if first > total:
        words = f"The notebook has only {total} cells: cell {first} is past its end."
        return ToolResult(NotebookOutput(file_path=path, start_cell=first, total_cells=total, warning=words))
    shown = (first, min(first + (count or total) - 1, total))
    if is_shown(place, file.status, shown, context):
        return report_unchanged(path, "These cells are", total)
    cells = await open_large_pictures(await read_in_thread(render_cells, notebook, first, shown[1] - first + 1))
    if is_too_long(
        _OUTPUT_WRAPPER.join(text for cell in cells for text in (cell.source, *(o.text for o in cell.outputs))), context
    ):
        return Failure(_explain_too_long(path, shown, total, context.session.config.tools.read_tokens))
    note_shown(shown)
    return ToolResult(
        NotebookOutput(
            file_path=path,
            language=notebook.language,
            cells=[CellOutput.of(cell) for cell in cells],
            start_cell=first,
            total_cells=total,
        )
    )


def _explain_too_long(path: str, shown: Range, total: int, tokens: int) -> str:
    words = f"Cells {shown[0]}-{shown[1]} of {total} in {path} are more than {tokens} tokens."
    if shown[0] == shown[1]:
        return f"{words} Find the place with Grep, or take a part of the file with a command."
    return (
        f"{words} Read fewer with offset and limit, which count the cells of a notebook, or find the place with Grep."
    )


async def read_document(
    path: str, place: str, status: os.stat_result, pages: Pages | None, context: ToolContext
) -> ToolResult[ReadOutput] | Failure:
    before = context.services.files.reads.get(place)
    if before is not None and before.total_lines:
        wanted = (pages or Pages(1, None)).clamp_to(before.total_lines)
        if wanted[0] <= before.total_lines and is_shown(place, status, wanted, context):
            return report_unchanged(path, "These pages are", before.total_lines)
    document = await pdf.load_document(place, pages)
    if not document.pages:
        return Failure(_explain_no_pages(path, document.total, pages))
    if is_too_long("\n".join(page.text for page in document.pages), context):
        first, last = document.pages[0].number, document.pages[-1].number
        words = f"Pages {first}-{last} of {path} are more than {context.session.config.tools.read_tokens} tokens."
        return Failure(f"{words} Read fewer with pages.")
    shown = (document.pages[0].number, document.pages[-1].number)
    remember(place, document.status, document.digest, document.total, shown, context)
    return ToolResult(DocumentOutput.of(path, document, whole=pages is None))


def _explain_no_pages(path: str, total: int, pages: Pages | None) -> str:
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
