"""Blocking work, beside the event loop and in bounds."""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# Files and kills do not wait for each other: a kill takes seconds when a process does not want to go.
_files: Final = anyio.CapacityLimiter(16)
_kills: Final = anyio.CapacityLimiter(32)


async def read_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For work that changes nothing: on cancellation it is left to end by itself."""
    return await anyio.to_thread.run_sync(work, *arguments, abandon_on_cancel=True, limiter=_files)


async def change_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For work that must be known to have ended."""
    return await anyio.to_thread.run_sync(work, *arguments, limiter=_files)


async def kill_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """For the end of processes, which waits for them."""
    return await anyio.to_thread.run_sync(work, *arguments, limiter=_kills)
