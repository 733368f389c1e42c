"""Text on the disk: what kind of file it is, how it is encoded, and how it is opened without surprises."""

import codecs
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from typing import Final

from ostler.tools import legacy
from ostler.tools.kinds import HEAD, UNKNOWN, binary_name, is_image, is_pdf

MAX_FILE_BYTES: Final = 1024**3
MAX_GUESSED_BYTES: Final = 8 * 1024 * 1024
"""Larger files that are not UTF-8 are most likely logs with a few stray bytes, and are taken for western ones."""

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LAYOUT: Final = "\x1b\u00ad\u200b\u200c\u200d\u200e\u200f\ufeff"
"""What a text may hold besides letters and blanks."""
_PLAIN: Final = re.compile(rb"[\0\t\n\r\x20-\x7e]*")
_STRAYS: Final = "ostler.strays"
"""What Python is told to do with bytes that are no UTF-8."""
_STRAY: Final = 0xF700
"""Private use: with a byte of 128 or more added, a character that no font and no file has."""
_STRAY_LETTERS: Final = re.compile("[\uf780-\uf7ff]")
_STRAY_CHARS: Final = re.compile(rb"\xef[\x9e\x9f][\x80-\xbf]")
"""The same as UTF-8 writes them."""
_MOSTLY: Final = 4
_STREAMS: Final = re.compile(
    r"/dev/(stdin|stdout|stderr|tty.*|fd/.*)|/proc/[^/]+/(task/[^/]+/)?fd/[0-2]|/proc/kmsg|.*/trace_pipe"
)


class Unreadable(Exception):
    """The file cannot be used as text; the words are for the model."""


class TooLarge(Unreadable):
    """There is too much of it."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes become text, and back."""

    codec: str
    bom: bytes = b""
    strays: bool = False
    """It is UTF-8 but for a few bytes, as logs are: each of those is a character that nobody else uses."""

    def decode(self, data: bytes) -> str:
        return data[len(self.bom) :].decode(self.codec, _STRAYS if self.strays else "strict")

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError where the encoding has no such character."""
        encoded = self.bom + text.encode(self.codec)
        return (
            _STRAY_CHARS.sub(lambda found: bytes([ord(found[0].decode()) - _STRAY]), encoded)
            if self.strays
            else encoded
        )


def _as_strays(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_STRAY + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_STRAYS, _as_strays)

UTF_8: Final = Encoding("utf-8")
_NEARLY_UTF_8: Final = Encoding("utf-8", strays=True)
# In the last one every byte means something, so that nothing is lost when an edited file is written again.
_WESTERN: Final = (Encoding("cp1252"), Encoding("latin-1"))


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


def is_stream(path: str) -> bool:
    """By its written path: the real one is whatever the daemon's own input happens to be."""
    return _STREAMS.fullmatch(path) is not None


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
        # First as much as there should be: room for the most that is allowed takes longer to get than the file.
        data = file.read(status.st_size + 1)
        if len(data) > status.st_size:
            data += file.read(MAX_FILE_BYTES + 1 - len(data))
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"{path} does not end within 1 GiB.")
    encoding = detect(path, data[:HEAD], len(data))
    if encoding is UTF_8:
        refuse_nul(path, data, len(data))
        text, encoding = decode_bytes(data)
    else:
        text = decode_wide(path, data, encoding)
    return TextFile(text, encoding, status, digest_of(data))


def decode_bytes(data: bytes) -> tuple[str, Encoding]:
    """UTF-8 where it is, else the old encoding that is most likely; encoded again it is what it was. Not on the loop.

    Read shows, and Edit writes, what this says: it must say the same of the same bytes.
    """
    try:
        return data.decode(), UTF_8
    except UnicodeDecodeError:
        pass
    if (nearly := _nearly_utf_8(data)) is not None:
        return nearly
    codec = legacy.guess(data) if len(data) <= MAX_GUESSED_BYTES else None
    found = _kept_by(Encoding(codec), data) if codec is not None else None
    return found or decode_western(data)


def _nearly_utf_8(data: bytes) -> tuple[str, Encoding] | None:
    """Where most of what is not ASCII can be read so: bytes of another encoding hardly ever can."""
    found = _kept_by(_NEARLY_UTF_8, data)
    if found is None:
        return None
    others = len(found[0]) - len(found[0].encode("ascii", "ignore"))
    strays = len(_STRAY_LETTERS.findall(found[0]))
    return found if others - strays >= _MOSTLY * strays else None


def decode_western(data: bytes) -> tuple[str, Encoding]:
    """Without a guess, one byte a character."""
    for encoding in _WESTERN:
        found = _kept_by(encoding, data)
        if found is not None:
            return found
    raise AssertionError("latin-1 decodes everything")


def _kept_by(encoding: Encoding, data: bytes) -> tuple[str, Encoding] | None:
    """Null where the bytes would not come back as they were: some encodings have two ways to say one thing."""
    try:
        text = encoding.decode(data)
        return (text, encoding) if encoding.encode(text) == data else None
    except UnicodeError:
        return None


def decode_wide(path: str, data: bytes, encoding: Encoding) -> str:
    """By what the beginning says. Raises Unreadable."""
    try:
        return encoding.decode(data)
    except UnicodeDecodeError:
        raise Unreadable(f"{path} begins as {encoding.codec.upper()}, but is damaged further on.") from None


def refuse_nul(path: str, data: bytes, size: int) -> None:
    if b"\0" in data:
        raise Unreadable(f"{path} is {UNKNOWN} ({size_in_words(size)}), which cannot be read as text.")


def detect(path: str, head: bytes, size: int) -> Encoding:
    """The encoding that the beginning of a file speaks for; UTF-8 stands for the old ones too. Raises Unreadable."""
    refuse_kinds(path, head, size)
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return Encoding(codec, bom)
    if b"\0" in head:
        name = binary_name(head)
        wide = _utf16_without_bom(head) if name == UNKNOWN and size % 2 == 0 else None
        if wide is None:
            raise Unreadable(f"{path} is {name} ({size_in_words(size)}), which cannot be read as text.")
        return Encoding(wide)
    return UTF_8


def refuse_kinds(path: str, head: bytes, size: int) -> None:
    """Files that only Read knows, and not as text."""
    name = "an image" if is_image(head) else "a PDF document" if is_pdf(path, head) else None
    if name is None:
        return
    raise Unreadable(f"{path} is {name} ({size_in_words(size)}), which cannot be read as text.")


def _utf16_without_bom(head: bytes) -> str | None:
    """Spaces, line ends and western letters have a NUL, most on the same side; and all of it is something to read."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    # Names with a NUL after each, as `find -print0` writes them, are letters on both sides.
    enough = len(head) * 0.45 if _PLAIN.fullmatch(head) else 1
    for codec, on_the_side, elsewhere in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if on_the_side >= enough and on_the_side > elsewhere and _is_written(head[: len(head) // 2 * 2], codec):
            return codec
    return None


def _is_written(head: bytes, codec: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)  # the last character may be only half there
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter.isspace() or letter in _LAYOUT for letter in text)


def size_in_words(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
