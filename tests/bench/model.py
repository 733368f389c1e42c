"""The scripted Messages API as a process of a run, with scripts that never run out."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import calls, clock, message, pause, says
from tests.support.messages_api.scripts import Script, loop
from tests.support.messages_api.server import ScriptedApi

FILES: Final = 400
"""Files that are read in turn: one that was read before, and is as it was, would not be shown again."""
LATER_DELTAS: Final = 5
_BETWEEN_DELTAS: Final = 0.006
_THOUGHT_SECONDS: Final = 0.01
BASH_CALLS: Final = 20
FLOOD_PIECES: Final = 20
TASK_SECONDS: Final = 5


_MODEL: Final = re.compile(rb'"model": ?"([^"]*)"')
_OPENING: Final = re.compile(rb'"messages": ?\[')
_KEPT_BYTES: Final = 128 * 1024
"""Enough for the system prompt, the tools and all of a short conversation, whose steps are counted."""
_GLANCE_BYTES: Final = 4096
_ANSWERED: Final = ({"role": "assistant"}, {"role": "user"})


class _Glancing(ScriptedApi):
    """Looks at the beginning of a request instead of parsing all of it, and drops the rest as it comes.

    Whatever else is done with a long one fills the caches that the two processors share: the client's next steps would
    take the longer, the longer the conversation is, and not by its own doing.
    """

    kept_bytes = _KEPT_BYTES

    def read(self, body: memoryview) -> dict[str, Any] | None:
        model, opening = _MODEL.search(body), _OPENING.search(body)
        if model is None or opening is None:
            return None
        first = bytes(body[opening.end() : opening.end() + _GLANCE_BYTES]).decode(errors="replace")
        answered = cast(bytearray, body.obj).count(b'"role":"assistant"', 0, len(body))
        return {"model": model[1].decode(), "messages": [{"role": "user", "content": first}, *_ANSWERED * answered]}


def file_names(folder: Path) -> list[Path]:
    return [folder / f"stable{number}.txt" for number in range(FILES)]


def _reads(name: str, folder: Path, parallel: int) -> Script:
    """So many Reads in each message, each of another file."""
    files = file_names(folder)

    def step(request: Recorded) -> Reply:
        first = request.number * parallel
        wanted = (files[(first + place) % FILES] for place in range(parallel))
        return _thought_over(message(*(calls("Read", {"file_path": str(path)}) for path in wanted)))

    return Script(name, (), step)


def _commands() -> Script:
    """The same command in each message, without end: the turn has its own."""
    return Script("bash", (), lambda _: _thought_over(message(calls("Bash", {"command": "true"}))))


def _thought_over(reply: Reply) -> Reply:
    """After a moment, always of one length: who waits for it has gone to sleep in short conversations, too."""
    return replace(reply, before=(pause(_THOUGHT_SECONDS),))


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


def _lines(request: Recorded) -> Reply:
    """A command of as many bytes as the conversation's name says, all of it lines of one letter; it is refused."""
    if request.step:
        return message(says("Done."))
    size = int(request.conversation.partition(":")[2])
    return message(calls("Bash", {"command": "a\n" * (size // 2)}, piece_chars=64 * 1024))


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
        _commands(),
        loop("twenty", BASH_CALLS, "Bash", {"command": "true"}),
        Script("words", (), message(says("Done."))),
        _clocks(),
        Script("flood", (), _flood),
        Script("tasks", (), _tasks),
        Script("lines", (), _lines),
    ]


def _trips(requests: list[Recorded]) -> list[dict[str, Any]]:
    """From the last event of each answer to the first byte of the same conversation's next request."""
    last: dict[str, Recorded] = {}
    found: list[dict[str, Any]] = []
    for request in requests:
        before = last.get(request.conversation)
        if before is not None and before.sent and request.size > before.size:
            took = (request.began - before.last_sent) * 1000
            found.append({"conversation": request.conversation, "ms": took})
        last[request.conversation] = request
    return found


async def _serve(order: dict[str, Any]) -> None:
    api = _Glancing(*_scripts(Path(order["folder"])), strict=False, keep=False)
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
