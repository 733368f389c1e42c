"""A cancel signal for several cancel scopes, one after the other: anyio's own is good for one scope only."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class StopSignal:
    """Cancels what runs in its scope now, and every scope entered later."""

    def __init__(self) -> None:
        self.cancel_called = False
        self._scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        self.cancel_called = True
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A cancel scope: its body is cancelled, without an exception outside, when the signal is."""
        # A scope of anyio's can be entered only once.
        with anyio.CancelScope() as scope:
            self._scope = scope
            if self.cancel_called:
                scope.cancel()
            yield
        self._scope = None
