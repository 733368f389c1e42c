"""How far a unit of work has come, for somebody who has more to do while the disk is at work."""

import asyncio


class Ahead:
    """Hears of a unit before everybody else: when it has run, and when the disk has it."""

    def __init__(self) -> None:
        self._ran = False
        self._written = False
        self._error: BaseException | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def ran(self) -> None:
        """Returns when only the disk is waited for, which needs no processor: what is done now takes no time."""
        while not self._ran:
            await self._next()

    async def written(self) -> None:
        """Returns when the disk has it; raises what the disk said where it does not."""
        while not self._written:
            await self._next()
        if self._error is not None:
            raise self._error

    async def _next(self) -> None:
        # One for each who waits: whoever is stopped meanwhile takes nothing from the others.
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    # By the writer, on the event loop.

    def has_run(self) -> None:
        self._ran = True
        self._wake()

    def is_written(self, error: BaseException | None) -> None:
        self._ran = self._written = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
