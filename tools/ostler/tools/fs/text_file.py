"""Loads text files: opens regular files only, detects their encoding and refuses binary ones."""

import codecs
import hashlib
import os
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.fs.encoding import UTF_8, Encoding, decode_bytes
from ostler.tools.fs.file_type import HEAD_BYTES, UNKNOWN_BINARY, describe_binary, is_image, is_pdf
from ostler.tools.fs.regular_file import NotRegular, open_regular_file

MAX_FILE_BYTES: Final = 1024**3

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LAYOUT: Final = "\x1b\u00ad\u200b\u200c\u200d\u200e\u200f\ufeff"
"""Characters that a text may contain besides printable ones and blanks."""
_PLAIN: Final = compile_later(rb"[\0\t\n\r\x20-\x7e]*")
_STREAMS: Final = compile_later(
    r"/dev/(stdin|stdout|stderr|tty.*|fd/.*)|/proc/[^/]+/(task/[^/]+/)?fd/[0-2]|/proc/kmsg|.*/trace_pipe"
)


class Unreadable(Exception):
    """The file cannot be used as text; the words are for the model."""


class TooLarge(Unreadable):
    """There is too much of it."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A whole file, as it was at one moment."""

    text: str
    encoding: Encoding
    status: os.stat_result
    digest: str

    @property
    def total_lines(self) -> int:
        return count_lines(self.text)


def count_lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def open_regular(path: str) -> int:
    """A descriptor of the file; Unreadable where it is no regular file or too large. FileNotFoundError passes."""
    try:
        descriptor = open_regular_file(path)
    except NotRegular as error:
        way_out = " Look into it with Glob, or with `ls`." if error.is_folder else ""
        raise Unreadable(f"{path} is {error.kind}, not a file.{way_out}") from None
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES:
        os.close(descriptor)
        raise TooLarge(
            f"{path} is too large ({format_size(size)}; the limit is 1 GiB). "
            "Search it with Grep, or take a part of it with a command."
        )
    return descriptor


def is_stream(path: str) -> bool:
    """By its written path: the real one is whatever the daemon's own input happens to be."""
    return _STREAMS.fullmatch(path) is not None


def load(path: str) -> TextFile:
    """The whole file as text. Raises Unreadable and OSError."""
    descriptor = open_regular(path)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        # First as much as its size says: allocating the most that is allowed takes longer than reading the file.
        data = file.read(status.st_size + 1)
        if len(data) > status.st_size:
            data += file.read(MAX_FILE_BYTES + 1 - len(data))
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"{path} does not end within 1 GiB.")
    encoding = detect_from_head(path, data[:HEAD_BYTES], len(data))
    if encoding.codec != UTF_8.codec:
        return TextFile(decode_wide(path, data, encoding), encoding, status, hash_bytes(data))
    refuse_nul(path, data, len(data))
    return TextFile(*decode_bytes(data, encoding.bom), status, hash_bytes(data))


def decode_wide(path: str, data: bytes, encoding: Encoding) -> str:
    """Decodes by the encoding that the beginning shows. Raises Unreadable."""
    try:
        return encoding.decode(data)
    except UnicodeDecodeError:
        raise make_damaged_error(path, encoding) from None


def make_damaged_error(path: str, encoding: Encoding) -> Unreadable:
    return Unreadable(f"{path} begins as {encoding.codec.upper()}, but is damaged further on.")


def refuse_nul(path: str, data: bytes, size: int) -> None:
    if b"\0" in data:
        raise Unreadable(f"{path} is {UNKNOWN_BINARY} ({format_size(size)}), which cannot be read as text.")


def detect_from_head(path: str, head: bytes, size: int) -> Encoding:
    """The encoding by the beginning of a file; UTF-8 stands for the legacy ones too. Raises Unreadable."""
    refuse_kinds(path, head, size)
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return Encoding(codec, bom)
    if b"\0" in head:
        name = describe_binary(head)
        wide = _detect_utf16(head) if name == UNKNOWN_BINARY and size % 2 == 0 else None
        if wide is None:
            raise Unreadable(f"{path} is {name} ({format_size(size)}), which cannot be read as text.")
        return Encoding(wide)
    return UTF_8


def refuse_kinds(path: str, head: bytes, size: int) -> None:
    """Raises Unreadable for images and PDFs, which only Read can show."""
    name = "an image" if is_image(head) else "a PDF document" if is_pdf(path, head) else None
    if name is None:
        return
    raise Unreadable(f"{path} is {name} ({format_size(size)}), which cannot be read as text.")


def _detect_utf16(head: bytes) -> str | None:
    """In UTF-16, blanks, line ends and western letters have a NUL, most on one side; and all of it is printable."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    # Names with a NUL after each, as `find -print0` writes them, have letters on both sides.
    enough = len(head) * 0.45 if _PLAIN.fullmatch(head) else 1
    for codec, on_the_side, elsewhere in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if on_the_side >= enough and on_the_side > elsewhere and _is_readable(head[: len(head) // 2 * 2], codec):
            return codec
    return None


def _is_readable(head: bytes, codec: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)  # the last character may be only half there
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter.isspace() or letter in _LAYOUT for letter in text)


def format_size(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
