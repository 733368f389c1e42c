"""PDF documents, written by hand."""

from collections.abc import Sequence
from typing import Final

PICTURE: Final = "0.8 0.2 0.2 rg 100 100 300 300 re f"
"""What a page holds that has no text: a red square."""


def build_text_content(text: str) -> str:
    return f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"


def build_pdf(
    pages: Sequence[str], *, box: tuple[int, int] = (612, 792), further: Sequence[bytes] = (), trailer: bytes = b""
) -> bytes:
    """One page for each content stream; further objects are numbered from 4 + 2 * len(pages) on."""
    kids = " ".join(f"{4 + 2 * place} 0 R" for place in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    first_further = 4 + 2 * len(pages)
    forms = " ".join(f"/X{number} {first_further + number} 0 R" for number in range(len(further)))
    for place, content in enumerate(pages):
        resources = f"<< /Font << /F1 3 0 R >> /XObject << {forms} >> >>"
        media = f"[0 0 {box[0]} {box[1]}]"
        page = f"/Type /Page /Parent 2 0 R /MediaBox {media} /Resources {resources} /Contents {5 + 2 * place} 0 R"
        objects.append(f"<< {page} >>".encode())
        objects.append(build_stream(content.encode()))
    return _assemble([*objects, *further], trailer)


def build_stream(content: bytes, more: str = "") -> bytes:
    return f"<< /Length {len(content)} {more} >>\nstream\n".encode() + content + b"\nendstream"


def build_nested_forms(levels: int, first: int) -> list[bytes]:
    """Forms that each draw the next one ten times: few bytes that take for ever to draw."""
    found = []
    for level in range(levels):
        deeper = level + 1 < levels
        content = b"/N Do " * 10 if deeper else b"BT /F1 1 Tf (x) Tj ET"
        resources = f"/XObject << /N {first + level + 1} 0 R >>" if deeper else ""
        more = f"/Type /XObject /Subtype /Form /BBox [0 0 600 600] /Resources << /Font << /F1 3 0 R >> {resources} >>"
        found.append(build_stream(content, more))
    return found


def build_locked_pdf(pages: Sequence[str]) -> bytes:
    """A document that only a password opens."""
    key = b"(" + b"x" * 32 + b")"
    encrypt = b"/Encrypt << /Filter /Standard /V 1 /R 2 /P -44 /O " + key + b" /U " + key + b" >> /ID [(a) (a)]"
    return build_pdf(pages, trailer=encrypt)


def _assemble(objects: Sequence[bytes], trailer: bytes) -> bytes:
    parts = [b"%PDF-1.4\n"]
    size, places = len(parts[0]), []
    for number, each in enumerate(objects, 1):
        places.append(size)
        parts.append(b"%d 0 obj\n" % number + each + b"\nendobj\n")
        size += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts += [b"%010d 00000 n \n" % place for place in places]
    parts.append(b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, size))
    return b"".join(parts)
