"""The scripted Messages API as a process of a run, with scripts that never run out."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.messages_api.acts import Reply
from tests.messages_api.record import Recorded
from tests.messages_api.replies import calls, clock, message, pause, says
from tests.messages_api.scripts import Script, loop
from tests.messages_api.server import ScriptedApi

FILES: Final = 400
"""Files that are read in turn: one that was read before, and is as it was, would not be shown again."""
LATER_DELTAS: Final = 5
_BETWEEN_DELTAS: Final = 0.006
BASH_CALLS: Final = 20
FLOOD_PIECES: Final = 20
TASK_SECONDS: Final = 5


def file_names(folder: Path) -> list[Path]:
    return [folder / f"stable{number}.txt" for number in range(FILES)]


def _reads(name: str, folder: Path, parallel: int) -> Script:
    """So many Reads in each message, each of another file."""
    files = file_names(folder)

    def step(request: Recorded) -> Reply:
        first = request.number * parallel
        wanted = (files[(first + place) % FILES] for place in range(parallel))
        return message(*(calls("Read", {"file_path": str(path)}) for path in wanted))

    return Script(name, (), step)


def _clocks() -> Script:
    """A message whose deltas tell when they were sent."""
    later = [act for _ in range(LATER_DELTAS) for act in (pause(_BETWEEN_DELTAS), clock())]
    return Script("clocks", (), message(says(clock(), *later)))


def _flood(request: Recorded) -> Reply:
    """One command that prints as many bytes as the conversation's name says, piece by piece."""
    if request.step:
        return message(says("Done."))
    size = int(request.conversation.partition(":")[2]) // FLOOD_PIECES
    piece = f"head -c {size} /dev/zero | tr '\\0' x | fold -w 99"
    command = f"for i in $(seq {FLOOD_PIECES}); do {piece}; sleep 0.2; done"
    return message(calls("Bash", {"command": command}))


def _tasks(request: Recorded) -> Reply:
    """As many commands in the background as the conversation's name says, each printing all the time."""
    if request.step:
        return message(says("Done."))
    count = int(request.conversation.partition(":")[2])
    command = f"end=$((SECONDS+{TASK_SECONDS})); while [ $SECONDS -lt $end ]; do echo working; sleep 0.1; done"
    call = {"command": command, "run_in_background": True}
    return message(*(calls("Bash", call) for _ in range(count)))


def _scripts(folder: Path) -> list[Script]:
    return [
        _reads("read", folder, 1),
        _reads("ten", folder, 10),
        # As good as without end: the turn has its own.
        loop("bash", 1_000_000, "Bash", {"command": "true"}),
        loop("twenty", BASH_CALLS, "Bash", {"command": "true"}),
        Script("words", (), message(says("Done."))),
        _clocks(),
        Script("flood", (), _flood),
        Script("tasks", (), _tasks),
    ]


def _trips(requests: list[Recorded]) -> list[dict[str, Any]]:
    """From the last event of each answer to the first byte of the same conversation's next request."""
    last: dict[str, Recorded] = {}
    found: list[dict[str, Any]] = []
    for request in requests:
        before = last.get(request.conversation)
        if before is not None and before.sent and request.message_count > before.message_count:
            took = (request.began - before.last_sent) * 1000
            found.append({"conversation": request.conversation, "messages": request.message_count, "ms": took})
        last[request.conversation] = request
    return found


async def _serve(order: dict[str, Any]) -> None:
    api = ScriptedApi(*_scripts(Path(order["folder"])), strict=False, keep=False)
    started = asyncio.Event()
    serving = asyncio.create_task(api.serve(0, started.set))
    await started.wait()
    _write({"url": api.url})
    while await asyncio.to_thread(sys.stdin.readline):
        failures = [request.status for request in api.requests if request.status not in (0, 200)]
        _write({"trips": _trips(api.requests), "requests": len(api.requests), "failures": failures})
        api.requests.clear()
    api.stop()
    await serving


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
