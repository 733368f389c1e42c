"""PDF documents: the text of their pages, and pictures of those that have none."""

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio

from ostler.tools.formats import pdf_worker
from ostler.tools.formats.image import LONG_EDGE, Picture
from ostler.tools.formats.worker import Died, Stopped, Worker, digest_beside, with_worker
from ostler.tools.fs.text_file import Unreadable, open_regular, size_in_words

WHOLE_PAGES: Final = 10
"""A longer document is shown only in parts."""
MAX_PAGES: Final = 20
_PAGE_BYTES: Final = 90_000
"""Of text on one page: it fits into what a read may show."""
_PICTURE_CHARS: Final = 8 * 1024 * 1024
"""Of all pictures of a call together; one more than that may begin below it."""
_RANGE: Final = re.compile(r"\s*(\d{1,6})\s*(-)?\s*(\d{1,6})?\s*")
_BREAKS: Final = {"\r\n": "\n", "\r": "\n", "\ufffe": "-", "\x02": "-"}
"""What PDFium writes for the end of a line, and for a hyphen at it."""
_CONTROLS: Final = {code: None for code in range(0x20) if code not in {0x09, 0x0A}}

_at_once: Final = anyio.CapacityLimiter(2)
"""Each of them may take a processor and a gigabyte."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages that somebody wants; without a last one, all that follow."""

    first: int
    last: int | None

    def within(self, total: int) -> tuple[int, int]:
        return self.first, min(self.last or total, total)


@dataclass(frozen=True, slots=True)
class Page:
    """What is on a page."""

    number: int
    text: str
    cut: bool = False
    """There is more text than that."""
    picture: Picture | None = None
    trouble: str | None = None
    """Why there is nothing to see."""


@dataclass(frozen=True, slots=True)
class Document:
    """A PDF document, as far as it was asked for; no pages where that was too much."""

    total: int
    pages: list[Page]
    status: os.stat_result
    digest: str


def parse_pages(text: str) -> Pages | str:
    """`3`, `1-5` or `10-`; or words about what is wrong with it."""
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
    async with _at_once:
        return await with_worker(partial(_document, path), Worker(pdf_worker, wanted))


def _document(path: str, worker: Worker) -> Document:
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        size = size_in_words(status.st_size)
        try:
            told, digest = worker.ask(file, partial(digest_beside, file))
        except Stopped:
            raise Unreadable(f"{path} was not read: the call was stopped.") from None
        except Died as error:
            raise Unreadable(_why_silent(path, size, error)) from None
    match told.get("trouble"):
        case None:
            return Document(told["total"], [_page(each) for each in told["pages"]], status, digest)
        case "password":
            raise Unreadable(f"{path} is a PDF document that needs a password.")
        case "memory":
            raise Unreadable(f"{path} is a PDF document that takes too much memory to open.")
        case _:
            raise Unreadable(f"{path} is a damaged PDF document ({size}).")


def _why_silent(path: str, size: str, died: Died) -> str:
    if died.took_too_long:
        return f"{path} is a PDF document that takes too long to open. Read fewer of its pages."
    return f"{path} cannot be opened as a PDF document ({size}): it is damaged, or needs too much memory."


def _page(told: dict[str, Any]) -> Page:
    drawn = told.get("picture")
    trouble = told.get("trouble")
    if "picture" in told and drawn is None:
        trouble = "it is a picture, and there is no more room for one in this read"
    picture = (
        Picture("image/jpeg", drawn["data"], tuple(drawn["points"]), (drawn["width"], drawn["height"]))
        if drawn
        else None
    )
    return Page(told["number"], _readable(told["text"]), told["cut"], picture, trouble)


def _readable(text: str) -> str:
    for written, meant in _BREAKS.items():
        text = text.replace(written, meant)
    return text.translate(_CONTROLS).strip("\n")
