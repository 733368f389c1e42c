"""Image files: small ones are looked at on a thread, large ones in a process of their own."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final, TypeVar

import anyio

from ostler.tools.formats import image_worker
from ostler.tools.formats.image import MAX_FILE_BYTES, Picture, picture, pixels_of
from ostler.tools.formats.worker import Died, Stopped, Worker, digest_beside, with_worker
from ostler.tools.fs.text_file import TooLarge, Unreadable, digest_of, open_regular, size_in_words
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

_SMALL_BYTES: Final = 4 * 1024 * 1024
SMALL_PIXELS: Final = 8_000_000
"""More hold the interpreter's lock too long: some decoders keep it."""

_at_once: Final = anyio.CapacityLimiter(2)
"""Each of them may take a processor and a gigabyte."""


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A picture, and what is to be remembered of its file."""

    picture: Picture
    status: os.stat_result
    digest: str


async def load_picture(path: str) -> PictureFile:
    """Raises Unreadable and OSError."""
    async with _at_once:
        found = await read_in_thread(_small, path)
        if found is not None:
            return found
        return await with_worker(partial(_large, path), Worker(image_worker, {"name": path}))


async def load_picture_of(name: str, data: bytes) -> Picture:
    """The same of bytes that are no file's own. Raises Unreadable and OSError."""

    def ask(worker: Worker) -> Picture:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            told, _ = _asked(name, file, worker, lambda: None)
            return told

    async with _at_once:
        return await with_worker(ask, Worker(image_worker, {"name": name}))


def _small(path: str) -> PictureFile | None:
    """Null for a large one."""
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(_SMALL_BYTES + 1)
    if len(data) > _SMALL_BYTES or pixels_of(path, data) > SMALL_PIXELS:
        return None
    return PictureFile(picture(path, data), status, digest_of(data))


def _large(path: str, worker: Worker) -> PictureFile:
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_FILE_BYTES:
            size, limit = size_in_words(status.st_size), size_in_words(MAX_FILE_BYTES)
            raise TooLarge(f"{path} is too large for an image ({size}; the limit is {limit}).")
        found, digest = _asked(path, file, worker, partial(digest_beside, file))
    return PictureFile(found, status, digest)


def _asked(name: str, file: BinaryIO, worker: Worker, meanwhile: Callable[[], T]) -> tuple[Picture, T]:
    """What the worker makes of a file, and what was found out meanwhile. Raises Unreadable."""
    size = size_in_words(os.fstat(file.fileno()).st_size)
    try:
        told, found = worker.ask(file, meanwhile)
    except Stopped:
        raise Unreadable(f"{name} was not read: the call was stopped.") from None
    except Died as error:
        why = "takes too long" if error.took_too_long else "is damaged or takes too much memory"
        raise Unreadable(f"{name} is an image ({size}) that {why} to open.") from None
    match told.get("trouble"):
        case None:
            return _picture(told), found
        case "memory":
            raise Unreadable(f"{name} is an image ({size}) that takes too much memory to open.")
        case words:
            raise Unreadable(words)


def _picture(told: dict[str, object]) -> Picture:
    """As the worker wrote it: JSON has no tuples."""
    lists = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Picture(**{**told, **lists})  # type: ignore[arg-type]  # our own words, only in JSON
