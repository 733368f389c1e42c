"""What is on a page, as a model can read it: its text, or pictures."""

import codecs
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from ostler.tools.formats.image import Picture
from ostler.tools.formats.image_blocks import detect_media_type
from ostler.tools.formats.image_file import load_picture_bytes
from ostler.tools.formats.pdf import MAX_PAGES, Pages, load_document
from ostler.tools.fs.charset import guess_codec
from ostler.tools.fs.text_file import Unreadable, format_size
from ostler.tools.threads import read_in_thread
from ostler.tools.web.html import HtmlConverter
from ostler.tools.web.page import Content, Page, PageUnavailable

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES: Final = re.compile(
    r"text/.+|application/(.+\+)?(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-sh|x-ndjson|sql|graphql)|image/svg\+xml"
)
_LOOKS_LIKE_HTML: Final = re.compile(
    rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_HEAD: Final = 2_048
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.IGNORECASE)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NOT_OF_PAGES: Final = frozenset(
    {
        "utf-7",
        "idna",
        "punycode",
        "unicode-escape",
        "unicode_escape",
        "raw-unicode-escape",
        "raw_unicode_escape",
        "undefined",
    }
)
"""Codecs of Python that no page is written in, or that make other text of it than a browser does."""
_AS_BROWSERS_DO: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
    "iso8859-11": "cp874",
}
_NAMES_OF_BROWSERS: Final = {
    "windows-874": "cp874",
    "dos-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
    "x-mac-roman": "mac_roman",
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gb18030",
    "x-x-big5": "big5hkscs",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "cn-big5": "big5hkscs",
    "windows-949": "cp949",
    "iso-ir-149": "cp949",
    "unicode-1-1-utf-8": "utf-8",
    "x-unicode20utf8": "utf-8",
    **{f"x-cp125{number}": f"cp125{number}" for number in range(9)},
}
"""Charsets that browsers know by names that Python does not."""


async def read_content(page: Page, converter: HtmlConverter) -> Content:
    """Raises PageUnavailable."""
    try:
        if detect_media_type(page.data[:16]) is not None:
            picture = await load_picture_bytes(str(page.url), page.data)
            return Content("", pictures=(picture,))
        if page.data.startswith(b"%PDF-"):
            return await _read_document(page)
        if _is_html(page):
            html = await read_in_thread(_decode_page, page)
            markdown = await converter.convert(html)
            return Content(markdown.text, markdown.title)
        if _TEXT_TYPES.fullmatch(page.media_type) or not page.media_type or _is_plain(page.data):
            return Content(await read_in_thread(_decode_page, page))
    except Unreadable as error:
        raise PageUnavailable(str(error)) from None
    size = format_size(len(page.data))
    raise PageUnavailable(
        f"{page.url} is {page.media_type or 'data'} ({size}), which is neither text, PDF nor picture."
    )


def _is_html(page: Page) -> bool:
    if page.media_type in {"", "application/octet-stream"}:
        return _LOOKS_LIKE_HTML.match(page.data[:_HEAD]) is not None
    return page.media_type in _HTML_TYPES


def _is_plain(data: bytes) -> bool:
    """Whether data of an unknown kind is text all the same, as a script that is served as a download."""
    head = data[:_HEAD]
    if b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _decode_page(page: Page) -> str:
    data = page.data
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data.decode(codec, "replace")
    declared = (find_page_codec(page.charset) if page.charset else None) or _find_declared(data)
    if declared is not None:
        return data.decode(declared, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(guess_codec(data) or "utf-8", "replace")


def _find_declared(data: bytes) -> str | None:
    found = _META_CHARSET.search(data[:_HEAD])
    return find_page_codec(found[1].decode("ascii", "replace")) if found else None


def find_page_codec(name: str) -> str | None:
    """The codec of a charset as a page or its header names it; None where no page is written in it."""
    try:
        codec = codecs.lookup(_NAMES_OF_BROWSERS.get(name.lower(), name))
    except LookupError:
        return None
    # Text codecs alone: others make bytes of bytes.
    if not codec._is_text_encoding or codec.name in _NOT_OF_PAGES:
        return None
    return _AS_BROWSERS_DO.get(codec.name, codec.name)


async def _read_document(page: Page) -> Content:
    path = await read_in_thread(_keep_file, page.data)
    try:
        document = await load_document(path, Pages(1, MAX_PAGES))
    finally:
        await read_in_thread(Path(path).unlink)
    parts = [f"PDF document ({document.total} pages)"]
    pictures: list[Picture] = []
    for each in document.pages:
        parts.append(f"## Page {each.number}\n\n{each.text or '(no text)'}")
        if each.cut:
            parts.append("(cut: there is more text on this page)")
        if each.trouble is not None:
            parts.append(f"(not shown: {each.trouble})")
        if each.picture is not None:
            pictures.append(each.picture)
            parts.append(f"(page {each.number} follows as a picture)")
    if document.total > MAX_PAGES:
        parts.append(f"({document.total - MAX_PAGES} more pages are not shown.)")
    return Content("\n\n".join(parts), pictures=tuple(pictures))


def _keep_file(data: bytes) -> str:
    descriptor, path = tempfile.mkstemp(prefix="ostler-page-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
