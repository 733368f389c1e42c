"""Finds a picture that a command printed: raw, or as a data URI."""

import base64
import binascii
import contextlib
import os
from typing import TYPE_CHECKING, Final

from ostler.protocol.patterns import compile_later
from ostler.tools.fs.text_file import Unreadable, format_size
from ostler.tools.threads import change_in_thread, change_later

if TYPE_CHECKING:
    from ostler.tools.formats.image import Picture
    from ostler.tools.shell.output.output_file import OutputFile

_MAX_BYTES: Final = 20 * 1024 * 1024
# What the first bytes of a PNG and of a JPEG become when they are taken for text.
_AS_TEXT: Final = ("\ufffdPNG\r\n", "\ufffd\ufffd\ufffd")
_RAW: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_URI: Final = compile_later(rb"\s*data:image/(?:png|jpeg|gif|webp);base64,([A-Za-z0-9+/=\r\n]+)\s*")
_URI_BEGINS: Final = "data:image/"


def may_be_picture(shown: str) -> bool:
    """By its beginning: most output is none."""
    return shown.startswith(_AS_TEXT) or shown[:100].lstrip().startswith(_URI_BEGINS)


async def find_picture(output: "OutputFile", shown: str) -> "Picture | str | None":
    """The picture that the whole output is; null where it is none, a message where it cannot be shown."""
    # Most calls never need it.
    from ostler.tools.formats.image_file import load_picture  # noqa: PLC0415

    path = await change_in_thread(_find_picture_file, output, shown)
    if path is None:
        return None
    is_raw = path == output.path
    if is_raw and output.size > _MAX_BYTES:
        return _describe_unseen(f"it is {format_size(output.size)}, and the limit is {format_size(_MAX_BYTES)}.")
    try:
        return (await load_picture(path)).picture
    except (Unreadable, OSError) as error:
        return _describe_unseen(str(error).replace(path, "it", 1)) if is_raw else None
    finally:
        if path != output.path:
            change_later(_remove_file, path)


def _find_picture_file(output: "OutputFile", shown: str) -> str | None:
    """The path of a file with the bytes of the picture; null where there is none."""
    size = output.size
    if shown.startswith(_AS_TEXT):
        return output.path if os.pread(output.descriptor, 8, 0).startswith(_RAW) else None
    if size > _MAX_BYTES:
        return None
    found = _URI.fullmatch(os.pread(output.descriptor, size, 0))
    if found is None:
        return None
    with contextlib.suppress(binascii.Error):
        return _write_picture(output, base64.b64decode(found[1]))
    return None


def _describe_unseen(why: str) -> str:
    """The message in place of a picture's bytes."""
    return f"(The command printed a picture that cannot be shown: {why})"


def _write_picture(output: "OutputFile", data: bytes) -> str:
    path = f"{output.path}.image"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return path


def _remove_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
