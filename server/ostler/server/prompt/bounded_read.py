"""Reads the beginning of a text file: of regular files only, inside the folders that they may come from."""

import codecs
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ostler.tools.fs.regular_file import NotRegular, read_regular_file

_SNIFF_BYTES: Final = 8192
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Unreadable(Exception):
    """The file cannot be shown; the message says why, as the end of a sentence."""


class IsFolder(Unreadable):
    """It is a folder."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """The first part of a file."""

    path: str
    """The real path."""
    text: str
    whole: bool


def resolve_inside(path: str, roots: Iterable[str]) -> str:
    """The real path of a file that exists below one of the roots."""
    try:
        real = os.path.realpath(path, strict=True)
        inside = any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots)
    except FileNotFoundError:
        raise Unreadable("does not exist") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not inside:
        raise Unreadable("is outside of the folders that may be read here")
    return real


def read_beginning(path: str, roots: Iterable[str], limit: int) -> FileHead:
    """At most `limit` bytes of a text file."""
    real = resolve_inside(path, roots)
    try:
        # The path is real already: a link in its last part was put there since.
        content = read_regular_file(real, limit + 1, follow=False)
    except NotRegular as error:
        raise (IsFolder("is a folder") if error.is_folder else Unreadable("is not a regular file")) from None
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    return FileHead(real, _decode(content[:limit]), len(content) <= limit)


def _decode(content: bytes) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if b"\0" in content[:_SNIFF_BYTES]:
        raise Unreadable("is not text")
    return content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
