"""What a background task prints, from its beginning to its end."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import anyio

from ostler.clients.sdk.retry import retry_call
from ostler.protocol.ids import TaskId
from ostler.protocol.methods import TASK_OUTPUT
from ostler.protocol.task import TaskPart, TaskRead

if TYPE_CHECKING:
    from ostler.clients.sdk.client import Ostler
    from ostler.clients.sdk.events import EventStream

_POLL_SECONDS: Final = 1.0
"""How long to wait for an event: output that came while no stream was connected is announced by none."""
_READ_BYTES: Final = 200_000


async def read_output(ostler: "Ostler", task_id: str, *, follow: bool) -> AsyncIterator[str]:
    """All output so far; then, where it is followed, what comes until the task is over."""
    part = await _read_part(ostler, task_id, 0)
    session_id = part.task.session_id
    async with ostler.events(session_id) as events:
        while True:
            while part.next_offset > part.offset:
                yield part.output
                part = await _read_part(ostler, task_id, part.next_offset)
            if part.task.ended_at is not None or not follow:
                return
            with anyio.move_on_after(_POLL_SECONDS):
                await _wait_for_output(events, task_id)
            part = await _read_part(ostler, task_id, part.next_offset)


async def _read_part(ostler: "Ostler", task_id: str, offset: int) -> TaskPart:
    wanted = TaskRead(task_id=TaskId(task_id), offset=offset, limit=_READ_BYTES)
    return await retry_call(lambda: ostler.call(TASK_OUTPUT, wanted))


async def _wait_for_output(events: "EventStream", task_id: str) -> None:
    async for event in events:
        if event.type == "task.output" and event.data.get("task_id") == task_id:
            return
        if event.type == "task.ended" and event.data.get("task", {}).get("id") == task_id:
            return
