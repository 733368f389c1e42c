"""The worker process that reads a PDF document: the number of pages, and the content of the requested ones."""

import base64
import io
import sys
from typing import Any

from ostler.tools.formats import worker_limits

# PDFium's number of an error, and of a type of page object.
_PASSWORD = 4
_TEXT = 1
_FEW_LETTERS = 10
"""A page with fewer is most likely a scan with a number on it."""
_MAX_SCALE = 3.0


def _read_document(wanted: dict[str, Any]) -> dict[str, Any]:
    # Imported after the limits are applied, which hold for it too.
    import pypdfium2  # noqa: PLC0415

    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer)
    except pypdfium2.PdfiumError as error:
        return {"trouble": "password" if error.err_code == _PASSWORD else "damaged"}
    total = len(document)
    numbers = _select_pages(wanted, total)
    chars_left = [wanted["picture_chars"]]
    return {"total": total, "pages": [_read_page(document, number, wanted, chars_left) for number in numbers]}


def _select_pages(wanted: dict[str, Any], total: int) -> range:
    """The pages to read; none at all where these are too many: the caller reports that."""
    if wanted["first"] is None:
        return range(1, total + 1 if total <= wanted["whole"] else 1)
    last = min(wanted["last"] or total, total)
    return range(wanted["first"], last + 1 if last - wanted["first"] < wanted["most"] else wanted["first"])


def _read_page(document: Any, number: int, wanted: dict[str, Any], chars_left: list[int]) -> dict[str, Any]:
    try:
        page = document[number - 1]
        text, cut = _extract_text(page, wanted["page_bytes"])
        page_data: dict[str, Any] = {"number": number, "text": text, "cut": cut}
        if sum(letter.isalnum() for letter in text) < _FEW_LETTERS and _is_drawn(page):
            page_data["picture"] = _render_picture(page, wanted["long_edge"], chars_left)
        page.close()
    except Exception as error:  # noqa: BLE001 - a damaged page must not make the others fail
        return {"number": number, "text": "", "cut": False, "trouble": f"{type(error).__name__}: {error}"[:200]}
    return page_data


def _is_drawn(page: Any) -> bool:
    """Whether there is something on the page besides text."""
    return any(each.type != _TEXT for each in page.get_objects(max_depth=1))


def _extract_text(page: Any, most: int) -> tuple[str, bool]:
    letters = page.get_textpage()
    count = letters.count_chars()
    text = letters.get_text_range(0, min(count, most)) if count > 0 else ""
    data = text.encode("utf-8", "replace")
    return data[:most].decode("utf-8", "ignore"), count > most or len(data) > most


def _render_picture(page: Any, long_edge: int, chars_left: list[int]) -> dict[str, Any] | None:
    """Renders the page as a picture; null where the limit of all pictures is reached."""
    if chars_left[0] <= 0:
        return None
    width, height = page.get_size()
    scale = min(_MAX_SCALE, long_edge / max(width, height, 1.0))
    image = page.render(scale=scale).to_pil().convert("RGB")
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    data = base64.b64encode(file.getvalue()).decode()
    chars_left[0] -= len(data)
    return {"data": data, "width": image.width, "height": image.height, "points": [round(width), round(height)]}


if __name__ == "__main__":
    worker_limits.run_worker(_read_document)
