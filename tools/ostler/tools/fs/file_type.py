"""Detects the type of a file by its first bytes (magic numbers)."""

from typing import Final, Literal

HEAD_BYTES: Final = 8192
"""Bytes that are examined."""

UNKNOWN_BINARY: Final = "a binary file"

FileKind = Literal["text", "image", "notebook", "pdf"]
"""What Read can show; all that is neither image, notebook nor PDF is text until it turns out not to be."""

_IMAGES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_PDF_WITHIN: Final = 1024
"""Mail programs and web servers put lines of their own before `%PDF-`; PDF readers search so far for it."""

# Used only for files that contain a NUL: a text may begin with some of these.
_BINARIES: Final = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"PK\x05\x06", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program or library (ELF)"),
    (b"\xcf\xfa\xed\xfe", "a program or library (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a Java class or a universal program"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\0\0\x01\0", "an icon"),
    (b"OggS", "an Ogg file"),
    (b"fLaC", "a FLAC file"),
    (b"ID3", "an MP3 file"),
    (b"wOFF", "a web font"),
    (b"wOF2", "a web font"),
    (b"\0\x01\0\0", "a font"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
)
_RIFF: Final = {b"WAVE": "a WAV file", b"AVI ": "an AVI film"}
_BOXES: Final = {b"avif": "an AVIF image", b"heic": "a HEIC image", b"mif1": "a HEIC image"}


def detect_kind(path: str, head: bytes) -> FileKind:
    """Images and documents by their content; only a notebook, which is JSON text, by its name."""
    if is_image(head):
        return "image"
    if is_pdf(path, head):
        return "pdf"
    return "notebook" if path.lower().endswith(".ipynb") else "text"


def is_image(head: bytes) -> bool:
    """Whether it is an image of a type that models take."""
    return head.startswith(_IMAGES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def is_pdf(path: str, head: bytes) -> bool:
    return head.startswith(b"%PDF-") or (path.lower().endswith(".pdf") and b"%PDF-" in head[:_PDF_WITHIN])


def describe_binary(head: bytes) -> str:
    """What people call a file that is no text; `a binary file` where the type is unknown."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], UNKNOWN_BINARY)
    if head[4:8] == b"ftyp":
        return _BOXES.get(head[8:12], "a film or sound (MP4)")
    if head[:2] == b"MZ" and b"PE\0\0" in head:
        return "a Windows program"
    if head[257:262] == b"ustar":
        return "a tar archive"
    return next((name for magic, name in _BINARIES if head.startswith(magic)), UNKNOWN_BINARY)
