"""The program that reads a PDF document: how many pages there are, and what is on those that are wanted."""

import base64
import io
import sys
from typing import Any

from ostler.tools.formats import worker_limits

# As PDFium numbers its errors, and what stands on a page.
_PASSWORD = 4
_TEXT = 1
_FEW_LETTERS = 10
"""A page with fewer is most likely a scan with a number on it."""
_MAX_SCALE = 3.0


def _look(wanted: dict[str, Any]) -> dict[str, Any]:
    # After the bounds, which hold for it too.
    import pypdfium2  # noqa: PLC0415

    try:
        document = pypdfium2.PdfDocument(sys.stdin.buffer)
    except pypdfium2.PdfiumError as error:
        return {"trouble": "password" if error.err_code == _PASSWORD else "damaged"}
    total = len(document)
    numbers = _numbers(wanted, total)
    room = [wanted["picture_chars"]]
    return {"total": total, "pages": [_page(document, number, wanted, room) for number in numbers]}


def _numbers(wanted: dict[str, Any], total: int) -> range:
    """None at all where that would be too many: whoever asked says so in better words."""
    if wanted["first"] is None:
        return range(1, total + 1 if total <= wanted["whole"] else 1)
    last = min(wanted["last"] or total, total)
    return range(wanted["first"], last + 1 if last - wanted["first"] < wanted["most"] else wanted["first"])


def _page(document: Any, number: int, wanted: dict[str, Any], room: list[int]) -> dict[str, Any]:
    try:
        page = document[number - 1]
        text, cut = _text(page, wanted["page_bytes"])
        told: dict[str, Any] = {"number": number, "text": text, "cut": cut}
        if sum(letter.isalnum() for letter in text) < _FEW_LETTERS and _is_drawn(page):
            told["picture"] = _picture(page, wanted["long_edge"], room)
        page.close()
    except Exception as error:  # noqa: BLE001 - a damaged page must not take the others along
        return {"number": number, "text": "", "cut": False, "trouble": f"{type(error).__name__}: {error}"[:200]}
    return told


def _is_drawn(page: Any) -> bool:
    """There is something on it besides text."""
    return any(each.type != _TEXT for each in page.get_objects(max_depth=1))


def _text(page: Any, most: int) -> tuple[str, bool]:
    letters = page.get_textpage()
    count = letters.count_chars()
    text = letters.get_text_range(0, min(count, most)) if count > 0 else ""
    data = text.encode("utf-8", "replace")
    return data[:most].decode("utf-8", "ignore"), count > most or len(data) > most


def _picture(page: Any, long_edge: int, room: list[int]) -> dict[str, Any] | None:
    """Null where there is no more room for one."""
    if room[0] <= 0:
        return None
    width, height = page.get_size()
    scale = min(_MAX_SCALE, long_edge / max(width, height, 1.0))
    image = page.render(scale=scale).to_pil().convert("RGB")
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    data = base64.b64encode(file.getvalue()).decode()
    room[0] -= len(data)
    return {"data": data, "width": image.width, "height": image.height, "points": [round(width), round(height)]}


if __name__ == "__main__":
    worker_limits.answer(_look)
