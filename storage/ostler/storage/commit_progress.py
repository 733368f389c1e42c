"""The progress of a commit in two stages, for callers that have other work while the disk is busy."""

import asyncio


class CommitProgress:
    """Two stages of a unit of work: it was executed, and it is durable. Both are known before it is published."""

    def __init__(self) -> None:
        self._is_executed = False
        self._is_durable = False
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    async def executed(self) -> None:
        """Wait until the unit has run and only the disk is missing: work done now costs no extra time."""
        while not self._is_executed:
            await self._wait_for_change()

    async def durable(self) -> None:
        """Wait until the unit is on the disk; raises the error where it could not be written."""
        while not self._is_durable:
            await self._wait_for_change()
        if self._error is not None:
            raise self._error

    async def _wait_for_change(self) -> None:
        # One future for each waiter: cancelling one does not affect the others.
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    # Called by the writer, on the event loop.

    def mark_executed(self) -> None:
        self._is_executed = True
        self._wake()

    def mark_durable(self, error: BaseException | None) -> None:
        self._is_executed = self._is_durable = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            if not each.done():
                each.set_result(None)
