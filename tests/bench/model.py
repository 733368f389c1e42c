"""The scripted Messages API as a process of its own, with scripts that have no last step."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, clock, message, pause, says
from tests.support.messages_api.scripts import Script, loop
from tests.support.messages_api.server import ScriptedApi

FILES: Final = 400
"""Files that are read in turn: Read does not show an unchanged file a second time."""
LATER_DELTAS: Final = 5
_DELTA_INTERVAL_SECONDS: Final = 0.006
_REPLY_DELAY_SECONDS: Final = 0.01
BASH_CALLS: Final = 20
FLOOD_PIECES: Final = 20
TASK_SECONDS: Final = 5
AGENT_CALLS: Final = 20


_MODEL: Final = re.compile(rb'"model": ?"([^"]*)"')
_STREAM: Final = re.compile(rb'"stream": ?true')
_MESSAGES_START: Final = re.compile(rb'"messages": ?\[')
_KEPT_BYTES: Final = 128 * 1024
"""Enough for the system prompt, the tools and all of a short conversation, whose steps are counted."""
_FIRST_MESSAGE_BYTES: Final = 4096
_ANSWERED: Final = ({"role": "assistant"}, {"role": "user"})


class _PrefixParsingApi(ScriptedApi):
    """Parses only the beginning of a request, and drops the rest as it comes.

    Parsing a long request would fill the caches that the two processors share: the client's next steps would become
    slower with the length of the conversation because of this server, and not because of the client.
    """

    kept_bytes = _KEPT_BYTES

    def read(self, body: memoryview) -> dict[str, Any] | None:
        model, opening = _MODEL.search(body), _MESSAGES_START.search(body)
        if model is None or opening is None:
            return None
        first = bytes(body[opening.end() : opening.end() + _FIRST_MESSAGE_BYTES]).decode(errors="replace")
        answered = cast(bytearray, body.obj).count(b'"role":"assistant"', 0, len(body))
        messages = [{"role": "user", "content": first}, *_ANSWERED * answered]
        return {"model": model[1].decode(), "messages": messages, "stream": _STREAM.search(body) is not None}


def list_file_paths(folder: Path) -> list[Path]:
    return [folder / f"stable{number}.txt" for number in range(FILES)]


def _build_reads_script(name: str, folder: Path, parallel: int) -> Script:
    """`parallel` Reads in each message, each of another file."""
    files = list_file_paths(folder)

    def step(request: RecordedRequest) -> Reply:
        first = request.number * parallel
        wanted = (files[(first + place) % FILES] for place in range(parallel))
        return _delay_reply(message(*(calls("Read", {"file_path": str(path)}) for path in wanted)))

    return Script(name, (), step)


def _build_commands_script() -> Script:
    """The same command in each message, without end: `max_requests` ends the turn."""
    return Script("bash", (), lambda _: _delay_reply(message(calls("Bash", {"command": "true"}))))


def _delay_reply(reply: Reply) -> Reply:
    """Delay a reply by a fixed time, so that the client sleeps before it in short conversations as in long ones."""
    return replace(reply, before=(pause(_REPLY_DELAY_SECONDS),))


def _build_clocks_script() -> Script:
    """A message whose deltas contain the time when they were sent."""
    later = [act for _ in range(LATER_DELTAS) for act in (pause(_DELTA_INTERVAL_SECONDS), clock())]
    return Script("clocks", (), message(says(clock(), *later)))


def _reply_with_flood(request: RecordedRequest) -> Reply:
    """One command that prints as many bytes as the conversation's name says, piece by piece."""
    if request.step:
        return message(says("Done."))
    size = int(request.conversation.partition(":")[2]) // FLOOD_PIECES
    piece = f"head -c {size} /dev/zero | tr '\\0' x | fold -w 99"
    command = f"for i in $(seq {FLOOD_PIECES}); do {piece}; sleep 0.2; done"
    return message(calls("Bash", {"command": command}))


def _reply_with_long_command(request: RecordedRequest) -> Reply:
    """A command of as many bytes as the conversation's name says, all of it lines of one letter; it is refused."""
    if request.step:
        return message(says("Done."))
    size = int(request.conversation.partition(":")[2])
    return message(calls("Bash", {"command": "a\n" * (size // 2)}, piece_chars=64 * 1024))


def _reply_with_tasks(request: RecordedRequest) -> Reply:
    """As many commands in the background as the conversation's name says, each printing all the time."""
    if request.step:
        return message(says("Done."))
    count = int(request.conversation.partition(":")[2])
    command = f"end=$((SECONDS+{TASK_SECONDS})); while [ $SECONDS -lt $end ]; do echo working; sleep 0.1; done"
    call = {"command": command, "run_in_background": True}
    return message(*(calls("Bash", call) for _ in range(count)))


def _build_errands_script(folder: Path) -> Script:
    """So many Reads, one after the other, each of another file; then the end."""
    files = list_file_paths(folder)

    def step(request: RecordedRequest) -> Reply:
        if request.step >= AGENT_CALLS:
            return message(says("Done."))
        return message(calls("Read", {"file_path": str(files[request.number % FILES])}))

    return Script("errand", (), step)


def _reply_with_agents(request: RecordedRequest) -> Reply:
    """As many agents in the background as the conversation's name says, each on an errand."""
    if request.step:
        return message(says("Done."))
    count = int(request.conversation.partition(":")[2])
    errands = ({"description": "errand", "prompt": f"[errand:{number}] go on"} for number in range(count))
    return message(*(calls("Agent", {**errand, "run_in_background": True}) for errand in errands))


def _reply_with_helper(request: RecordedRequest) -> Reply:
    """One agent, which is waited for."""
    if request.step:
        return message(says("Done."))
    return message(calls("Agent", {"description": "words", "prompt": "[words] go on"}))


def _build_scripts(folder: Path) -> list[Script]:
    return [
        _build_reads_script("read", folder, 1),
        _build_reads_script("ten", folder, 10),
        _build_commands_script(),
        loop("twenty", BASH_CALLS, "Bash", {"command": "true"}),
        Script("words", (), message(says("Done."))),
        _build_clocks_script(),
        Script("flood", (), _reply_with_flood),
        Script("tasks", (), _reply_with_tasks),
        Script("lines", (), _reply_with_long_command),
        _build_errands_script(folder),
        Script("herd", (), _reply_with_agents),
        Script("helper", (), _reply_with_helper),
    ]


def _collect_round_trips(requests: list[RecordedRequest]) -> list[dict[str, Any]]:
    """Milliseconds from the last event of each answer to the first byte of the same conversation's next request."""
    last: dict[str, RecordedRequest] = {}
    trips: list[dict[str, Any]] = []
    for request in requests:
        before = last.get(request.conversation)
        if before is not None and before.sent and request.size > before.size:
            took = (request.began - before.last_sent) * 1000
            trips.append({"conversation": request.conversation, "ms": took})
        last[request.conversation] = request
    return trips


def _describe_times(request: RecordedRequest) -> dict[str, Any]:
    sent = request.sent[-1] if request.sent else None
    return {"conversation": request.conversation, "began": request.began, "sent": sent}


async def _serve(order: dict[str, Any]) -> None:
    api = _PrefixParsingApi(*_build_scripts(Path(order["folder"])), strict=False, keep=False)
    started = asyncio.Event()
    serving = asyncio.create_task(api.serve(0, started.set))
    await started.wait()
    _write({"url": api.url})
    while line := await asyncio.to_thread(sys.stdin.readline):
        failures = [request.status for request in api.requests if request.status not in (0, 200)]
        answer = {"trips": _collect_round_trips(api.requests), "requests": len(api.requests), "failures": failures}
        answer["first_began"] = api.requests[0].began if api.requests else None
        if json.loads(line).get("list"):
            answer["listed"] = [_describe_times(request) for request in api.requests]
        _write(answer)
        api.requests.clear()
    api.stop()
    await serving


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
