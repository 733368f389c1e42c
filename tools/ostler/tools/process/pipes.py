"""Reads the pipes of processes together: in a limited time, and a limited number of bytes of each."""

import os
import selectors
import time
from collections.abc import Iterable
from typing import IO

_READ_AT_ONCE = 65_536


class TooSlow(Exception):
    """A pipe was still open when the time was up."""


class TooMuch(Exception):
    """A pipe gave more than it may."""


def read_pipes(pipes: Iterable[IO[bytes] | None], *, seconds: float, max_bytes: int) -> list[bytes]:
    """All that each gives until its end. Blocks; raises TooSlow and TooMuch."""
    deadline = time.monotonic() + seconds
    contents: list[bytearray] = []
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            assert pipe is not None, "it was opened as a pipe"
            contents.append(bytearray())
            selector.register(pipe, selectors.EVENT_READ, contents[-1])
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TooSlow
            for found, _ in ready:
                if not (chunk := os.read(found.fd, _READ_AT_ONCE)):
                    selector.unregister(found.fileobj)
                found.data.extend(chunk)
                if len(found.data) > max_bytes:
                    raise TooMuch
    return [bytes(content) for content in contents]
