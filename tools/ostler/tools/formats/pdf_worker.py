"""The worker process that reads a PDF document: the number of pages, and the content of the requested ones."""

import base64
import io
import sys
from itertools import islice
from typing import Any

from ostler.tools.formats import worker_limits

# PDFium's number of an error, and of types of page objects.
_PASSWORD = 4
_TEXT = 1
_PATH = 2
_FORM = 5
_FEW_LETTERS = 10
"""A page with fewer is most likely a scan with a number on it."""
_MAX_SCALE = 3.0
_MAX_OBJECTS = 20_000
"""Of one page, that are looked at for drawings."""
_MAX_DEPTH = 8
_LARGE_POINTS = 24
"""What is smaller in one direction is an icon, a bullet or a rule, and no drawing by itself."""
_BACKGROUND = 0.9
"""A path that covers so much of the page in both directions is its background."""
_MANY_UPRIGHTS = 3
"""Rules that stand upright: so many are a table or a diagram. Lying ones underline words."""
_MANY_SMALL = 12
"""Small shapes: so many are a plot, or something that was drawn with little strokes."""


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
        if _shows_more_than_text(page, text):
            page_data["picture"] = _render_picture(page, wanted["long_edge"], chars_left)
        page.close()
    except Exception as error:  # noqa: BLE001 - a damaged page must not make the others fail
        return {"number": number, "text": "", "cut": False, "trouble": f"{type(error).__name__}: {error}"[:200]}
    return page_data


def _shows_more_than_text(page: Any, text: str) -> bool:
    """Whether the text alone would not do: there is little of it, or the page has drawings."""
    if sum(letter.isalnum() for letter in text) < _FEW_LETTERS:
        return any(each.type != _TEXT for each in page.get_objects(max_depth=1))
    return _has_drawings(page)


def _has_drawings(page: Any) -> bool:
    """Whether there is a picture, a diagram or a table on it; rules, bullets and its background are none."""
    uprights = small = 0
    page_width, page_height = page.get_size()
    for each in islice(page.get_objects(max_depth=_MAX_DEPTH), _MAX_OBJECTS):
        if each.type in {_TEXT, _FORM}:  # what a form holds comes by itself
            continue
        width, height = _measure(each)
        is_path = each.type == _PATH
        if is_path and width >= _BACKGROUND * page_width and height >= _BACKGROUND * page_height:
            continue
        if min(width, height) >= _LARGE_POINTS:
            return True
        if is_path and height >= _LARGE_POINTS:
            uprights += 1
        elif is_path and width < _LARGE_POINTS:
            small += 1
        if uprights >= _MANY_UPRIGHTS or small >= _MANY_SMALL:
            return True
    return False


def _measure(shape: Any) -> tuple[float, float]:
    """Its width and height in points of the page."""
    left, bottom, right, top = shape.get_bounds()
    form = shape.container
    while form is not None:
        left, bottom, right, top = form.get_matrix().on_rect(left, bottom, right, top)
        form = form.container
    return abs(right - left), abs(top - bottom)


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
