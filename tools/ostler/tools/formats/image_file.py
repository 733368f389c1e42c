"""Loads image files: small ones are decoded on a thread, large ones in a worker process."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final, TypeVar

import anyio

from ostler.tools.formats import image_worker
from ostler.tools.formats.image import MAX_FILE_BYTES, Picture, build_picture, count_pixels
from ostler.tools.formats.worker import Worker, WorkerDied, WorkerStopped, compute_digest, run_with_worker
from ostler.tools.fs.text_file import TooLarge, Unreadable, format_size, hash_bytes, open_regular
from ostler.tools.threads import read_in_thread

T = TypeVar("T")

_SMALL_BYTES: Final = 4 * 1024 * 1024
SMALL_PIXELS: Final = 8_000_000
"""Larger ones hold the interpreter's lock too long: some decoders do not release it."""

_limiter: Final = anyio.CapacityLimiter(2)
"""Each load may take a processor and a gigabyte."""


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A picture, and what is to be remembered of its file."""

    picture: Picture
    status: os.stat_result
    digest: str


async def load_picture(path: str) -> PictureFile:
    """Raises Unreadable and OSError."""
    async with _limiter:
        found = await read_in_thread(_load_small, path)
        if found is not None:
            return found
        return await run_with_worker(partial(_load_large, path), Worker(image_worker, {"name": path}))


async def load_picture_bytes(name: str, data: bytes) -> Picture:
    """The same for the bytes of an image that is part of another file. Raises Unreadable and OSError."""

    def ask(worker: Worker) -> Picture:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            answer, _ = _ask_worker(name, file, worker, lambda: None)
            return answer

    async with _limiter:
        return await run_with_worker(ask, Worker(image_worker, {"name": name}))


def _load_small(path: str) -> PictureFile | None:
    """Loads a small picture; null for a large one."""
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(_SMALL_BYTES + 1)
    if len(data) > _SMALL_BYTES or count_pixels(path, data) > SMALL_PIXELS:
        return None
    return PictureFile(build_picture(path, data), status, hash_bytes(data))


def _load_large(path: str, worker: Worker) -> PictureFile:
    with open(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_FILE_BYTES:
            size, limit = format_size(status.st_size), format_size(MAX_FILE_BYTES)
            raise TooLarge(f"{path} is too large for an image ({size}; the limit is {limit}).")
        found, digest = _ask_worker(path, file, worker, partial(compute_digest, file))
    return PictureFile(found, status, digest)


def _ask_worker(name: str, file: BinaryIO, worker: Worker, meanwhile: Callable[[], T]) -> tuple[Picture, T]:
    """The worker's picture of a file, and what `meanwhile` returned. Raises Unreadable."""
    size = format_size(os.fstat(file.fileno()).st_size)
    try:
        answer, found = worker.ask(file, meanwhile)
    except WorkerStopped:
        raise Unreadable(f"{name} was not read: the call was stopped.") from None
    except WorkerDied as error:
        why = "takes too long" if error.took_too_long else "is damaged or takes too much memory"
        raise Unreadable(f"{name} is an image ({size}) that {why} to open.") from None
    match answer.get("trouble"):
        case None:
            return _parse_picture(answer), found
        case "memory":
            raise Unreadable(f"{name} is an image ({size}) that takes too much memory to open.")
        case words:
            raise Unreadable(words)


def _parse_picture(answer: dict[str, object]) -> Picture:
    """Builds the picture from the worker's JSON, which has lists for tuples."""
    lists = {name: tuple(value) for name, value in answer.items() if isinstance(value, list)}
    return Picture(**{**answer, **lists})  # type: ignore[arg-type]  # our own fields, from JSON
