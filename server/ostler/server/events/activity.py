"""When something last happened in a session, for those that are watched: an agent that makes no progress is named."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ostler.protocol.events import ToolProgress
from ostler.protocol.ids import SessionId
from ostler.protocol.wire import Shape


@dataclass(slots=True)
class Activity:
    """The times of the last events, of watched sessions only: there is nothing to do for the others."""

    _last: dict[SessionId, float] = field(default_factory=dict)
    _watchers: dict[SessionId, int] = field(default_factory=dict)

    @contextmanager
    def watch(self, session_id: SessionId) -> Iterator[None]:
        self._watchers[session_id] = self._watchers.get(session_id, 0) + 1
        self._last.setdefault(session_id, time.monotonic())
        try:
            yield
        finally:
            self._watchers[session_id] -= 1
            if not self._watchers[session_id]:
                del self._watchers[session_id], self._last[session_id]

    def measure_silence(self, session_id: SessionId) -> float:
        """For how many seconds nothing has happened in a watched session."""
        return time.monotonic() - self._last[session_id]

    def note(self, session_id: SessionId | None) -> None:
        if session_id is not None and session_id in self._last:
            self._last[session_id] = time.monotonic()

    def note_transient(self, session_id: SessionId | None, data: Shape) -> None:
        """What a call reports counts where it has printed something: time passes for a command that hangs, too."""
        if not isinstance(data, ToolProgress) or data.kind != "shell" or data.data.get("output"):
            self.note(session_id)
