"""Loads PDF documents in a worker process: the text of their pages, and pictures where that is not all."""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio

from ostler.protocol.patterns import compile_later
from ostler.tools.formats import pdf_worker
from ostler.tools.formats.image import LONG_EDGE, Picture
from ostler.tools.formats.worker import Worker, WorkerDied, WorkerStopped, compute_digest, run_with_worker
from ostler.tools.fs.text_file import Unreadable, format_size, open_regular

WHOLE_PAGES: Final = 10
"""A longer document is shown only in parts."""
MAX_PAGES: Final = 20
_PAGE_BYTES: Final = 90_000
"""Limit of the text of one page: it fits into what a read may show."""
_PICTURE_CHARS: Final = 8 * 1024 * 1024
"""Base64 characters of all pictures of a call together; the last one may exceed it."""
_RANGE: Final = compile_later(r"\s*(\d{1,6})\s*(-)?\s*(\d{1,6})?\s*")
_BREAKS: Final = {"\r\n": "\n", "\r": "\n", "\ufffe": "-", "\x02": "-"}
"""What PDFium writes for the end of a line, and for a hyphen there."""
_CONTROLS: Final = {code: None for code in range(0x20) if code not in {0x09, 0x0A}}

_limiter: Final = anyio.CapacityLimiter(2)
"""Each load may take a processor and a gigabyte."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The requested range of pages; without a last one, all that follow."""

    first: int
    last: int | None

    def clamp_to(self, total: int) -> tuple[int, int]:
        return self.first, min(self.last or total, total)


@dataclass(frozen=True, slots=True)
class Page:
    """What is on a page."""

    number: int
    text: str
    cut: bool = False
    """There is more text on the page."""
    picture: Picture | None = None
    trouble: str | None = None
    """Why the page cannot be shown."""


@dataclass(frozen=True, slots=True)
class Document:
    """The requested pages of a PDF document; none where these were too many."""

    total: int
    pages: list[Page]
    status: os.stat_result
    digest: str


def parse_pages(text: str) -> Pages | str:
    """Parses `3`, `1-5` or `10-`; returns a message where it is not valid."""
    match = _RANGE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        return f"pages is {text[:50]!r}, but must be like '3', '1-5' or '10-'."
    first = int(match[1])
    last = first if not match[2] else int(match[3]) if match[3] else None
    if first < 1:
        return "pages begins with 0, but pages are counted from 1."
    if last is not None and last < first:
        return f"pages is {text[:50]!r}, which ends before it begins."
    if last is not None and last - first >= MAX_PAGES:
        return f"pages is {text[:50]!r}, but at most {MAX_PAGES} pages can be read at once."
    return Pages(first, last)


async def load_document(path: str, pages: Pages | None) -> Document:
    """Raises Unreadable and OSError."""
    wanted = {
        "first": pages.first if pages else None,
        "last": pages.last if pages else None,
        "whole": WHOLE_PAGES,
        "most": MAX_PAGES,
        "page_bytes": _PAGE_BYTES,
        "picture_chars": _PICTURE_CHARS,
        "long_edge": LONG_EDGE,
    }
    async with _limiter:
        return await run_with_worker(partial(_read_document, path), Worker(pdf_worker, wanted))


def _read_document(path: str, worker: Worker) -> Document:
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        size = format_size(status.st_size)
        try:
            answer, digest = worker.ask(file, partial(compute_digest, file))
        except WorkerStopped:
            raise Unreadable(f"{path} was not read: the call was stopped.") from None
        except WorkerDied as error:
            raise Unreadable(_explain_death(path, size, error)) from None
    match answer.get("trouble"):
        case None:
            return Document(answer["total"], [_parse_page(each) for each in answer["pages"]], status, digest)
        case "password":
            raise Unreadable(f"{path} is a PDF document that needs a password.")
        case "memory":
            raise Unreadable(f"{path} is a PDF document that takes too much memory to open.")
        case _:
            raise Unreadable(f"{path} is a damaged PDF document ({size}).")


def _explain_death(path: str, size: str, died: WorkerDied) -> str:
    if died.took_too_long:
        return f"{path} is a PDF document that takes too long to open. Read fewer of its pages."
    return f"{path} cannot be opened as a PDF document ({size}): it is damaged, or needs too much memory."


def _parse_page(page_data: dict[str, Any]) -> Page:
    drawn = page_data.get("picture")
    trouble = page_data.get("trouble")
    if "picture" in page_data and drawn is None:
        shown = "its drawings" if page_data["text"].strip() else "it is a picture"
        trouble = f"{shown}, and there is no more room for a picture in this read"
    picture = (
        Picture("image/jpeg", drawn["data"], tuple(drawn["points"]), (drawn["width"], drawn["height"]))
        if drawn
        else None
    )
    return Page(page_data["number"], _clean_text(page_data["text"]), page_data["cut"], picture, trouble)


def _clean_text(text: str) -> str:
    for written, meant in _BREAKS.items():
        text = text.replace(written, meant)
    return text.translate(_CONTROLS).strip("\n")
