"""What running calls have printed so far, for clients that attach while they run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ostler.protocol import times
from ostler.protocol.events import ToolProgress
from ostler.protocol.ids import CallId
from ostler.protocol.shapes import Call, RunningCall
from ostler.storage import Scope
from ostler.storage.repositories.events import LoggedEvent

KEPT_CHARS: Final = 64 * 1024
"""Characters of the output that are kept of each call."""
_CALL_ID: Final = b'{"call":{"call_id":"'
"""How the data of an event about a call begins; the rest is not read: a result may be megabytes."""


@dataclass(slots=True)
class _Printed:
    scope: Scope
    last: ToolProgress
    output: str = ""
    offset: int = 0

    def add(self, progress: ToolProgress) -> None:
        text, offset = progress.data["output"], progress.data["offset"]
        self.last = progress
        if offset != self.offset + len(self.output):  # something was left out in between
            self.output, self.offset = "", offset
        whole = self.output + text
        self.output = whole[-KEPT_CHARS:]
        self.offset += len(whole) - len(self.output)

    def as_progress(self) -> ToolProgress:
        """All that is kept, as one report."""
        return self.last.changed(data={**self.last.data, "output": self.output, "offset": self.offset})


class RunningCalls:
    """The end of what each running call has printed. It follows what is published: never ahead of subscribers."""

    def __init__(self) -> None:
        self._by_call: dict[CallId, _Printed] = {}

    def track_event(self, event: LoggedEvent) -> None:
        if not self._by_call:
            return
        if event.type == "tool.completed" and event.data.startswith(_CALL_ID):
            end = event.data.index(b'"', len(_CALL_ID))
            self._by_call.pop(CallId(event.data[len(_CALL_ID) : end].decode()), None)
        elif event.type in {"turn.ended", "session.deleted"}:
            self._by_call = {
                call_id: printed
                for call_id, printed in self._by_call.items()
                if printed.scope.session_id != event.session_id
            }

    def track_progress(self, scope: Scope, progress: ToolProgress) -> None:
        """Keep what a call printed; progress of another kind has nothing that could be joined."""
        if isinstance(progress.data.get("output"), str) and isinstance(progress.data.get("offset"), int):
            self._by_call.setdefault(progress.call_id, _Printed(scope, progress)).add(progress)

    def describe(self, call: Call) -> RunningCall:
        """A call that runs, with the end of what it has printed."""
        printed = self._by_call.get(call.call_id)
        ran = datetime.now(UTC) - datetime.fromisoformat(call.started_at or times.now())
        return RunningCall.model_construct(
            **{**call.__dict__, "output": printed.output if printed is not None else ""},
            output_offset=printed.offset if printed is not None else 0,
            elapsed_ms=max(0, int(ran.total_seconds() * 1000)),
        )

    def replay_progress(self, wanted: Callable[[Scope], bool]) -> Iterator[tuple[Scope, ToolProgress]]:
        """What the running calls in a wanted scope have printed, as one report of each."""
        return ((one.scope, one.as_progress()) for one in self._by_call.values() if wanted(one.scope))
