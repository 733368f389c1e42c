"""Text on the disk: what kind of file it is, how it is encoded, and how it is opened without surprises."""

import codecs
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from typing import Final

MAX_FILE_BYTES: Final = 1024**3
_SAMPLE: Final = 8192

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"%PDF-", "PDF document"),
)
_STREAMS: Final = re.compile(r"/dev/(stdin|stdout|stderr|tty.*|fd/.*)|/proc/[^/]+/fd/[0-2]")


class Unreadable(Exception):
    """The file cannot be used as text; the words are for the model."""


class TooLarge(Unreadable):
    """There is too much of it."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes become text, and back."""

    codec: str
    bom: bytes = b""

    def decode(self, data: bytes) -> str:
        return data[len(self.bom) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError where the encoding has no such character."""
        return self.bom + text.encode(self.codec)


UTF_8: Final = Encoding("utf-8")
# In the last one every byte means something, so that nothing is lost when an edited file is written again.
_WITHOUT_BOM: Final = (UTF_8, Encoding("cp1252"), Encoding("latin-1"))


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


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def open_regular(path: str) -> int:
    """A descriptor of the file, or Unreadable for all that is no file of a known end. FileNotFoundError passes."""
    _refuse_special(path, os.stat(path).st_mode)
    # Non-blocking: between the look and the opening it may have become a FIFO, which would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _refuse_special(path, status.st_mode)
        if status.st_size > MAX_FILE_BYTES:
            raise TooLarge(
                f"{path} is too large ({size_in_words(status.st_size)}; the limit is 1 GiB). "
                "Search it with Grep, or take a part of it with a command."
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_stream(path: str) -> None:
    """By its written path: the real one is whatever the daemon's own input happens to be."""
    if _STREAMS.fullmatch(path):
        raise Unreadable(f"{path} is a stream without an end, not a file.")


def _refuse_special(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise Unreadable(f"{path} is a folder, not a file. Look into it with Glob, or with `ls`.")
    for is_kind, name in (
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_kind(mode):
            raise Unreadable(f"{path} is {name}, not a file.")


def load(path: str) -> TextFile:
    """The whole file as text. Raises Unreadable and OSError."""
    descriptor = open_regular(path)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"{path} does not end within 1 GiB.")
    encoding = detect(path, data[:_SAMPLE], len(data))
    if encoding is UTF_8:
        refuse_nul(path, data)
        text, encoding = decode_bytes(data)
    else:
        text = _decode_wide(path, data, encoding)
    return TextFile(text, encoding, status, digest_of(data))


def decode_bytes(data: bytes, *, final: bool = True) -> tuple[str, Encoding]:
    """UTF-8 where it is, else an old encoding of one byte a character. Not final: it may end within a character."""
    try:
        return codecs.utf_8_decode(data, "strict", final)[0], UTF_8
    except UnicodeDecodeError:
        pass
    for encoding in _WITHOUT_BOM[1:]:
        try:
            return encoding.decode(data), encoding
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes everything")


def _decode_wide(path: str, data: bytes, encoding: Encoding) -> str:
    try:
        return encoding.decode(data)
    except UnicodeDecodeError:
        raise Unreadable(f"{path} begins as {encoding.codec.upper()}, but is damaged further on.") from None


def refuse_nul(path: str, data: bytes) -> None:
    if b"\0" in data:
        raise Unreadable(f"{path} is a binary file ({size_in_words(len(data))}).")


def detect(path: str, head: bytes, size: int) -> Encoding:
    """The encoding that the beginning of a file speaks for; UTF-8 stands for the old ones too. Raises Unreadable."""
    refuse_kinds(path, head, size)
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return Encoding(codec, bom)
    if b"\0" in head:
        wide = _utf16_without_bom(head)
        if wide is None:
            raise Unreadable(f"{path} is a binary file ({size_in_words(size)}).")
        return Encoding(wide)
    return UTF_8


def refuse_kinds(path: str, head: bytes, size: int) -> None:
    """Files that need another way of reading."""
    kind = next((name for magic, name in _KINDS if head.startswith(magic)), None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "image"
    if kind is not None:
        article = "an" if kind[0] in "aeiou" else "a"
        raise Unreadable(f"{path} is {article} {kind} ({size_in_words(size)}), which cannot be read yet.")


def _utf16_without_bom(head: bytes) -> str | None:
    """Text in western letters has every other byte NUL."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > 0.7 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.05 * half:
        return "utf-16-be"
    return None


def size_in_words(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
