"""A stop that several waits obey, one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Stop:
    """Cancels what runs under it, now and later."""

    def __init__(self) -> None:
        self.called = False
        self._scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        self.called = True
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """What runs in here ends quietly when the stop is called."""
        # A scope of anyio's is good for one use only.
        with anyio.CancelScope() as scope:
            self._scope = scope
            if self.called:
                scope.cancel()
            yield
        self._scope = None
