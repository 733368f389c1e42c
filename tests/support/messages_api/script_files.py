"""Scripts as JSON, for a server in its own process.

{"default": SCRIPT, "scripts": [SCRIPT, …]}

SCRIPT: {"name": "x", "replies": [REPLY, …], "otherwise": REPLY}
        {"name": "x", "loop": {"times": 20, "tool": "Bash", "input": {"command": "true"}, "parallel": 1}}
REPLY:  {"parts": [PART, …], "stop_reason": "…", "usage": {…}, "every": 0.01, "after": 0.5,
         "cut_after": 3, "reset_after": 3, "ends_after": 3}
        {"status": 529, "text": "…", "retry_after": "1"} · {"html": 502} · {"hangs": true} · {"resets": true}
        {"attempts": [REPLY, …]}
PART:   {"says": ["…", ACT, …]} · {"thinks": ["…"], "signature": "…"}
        {"calls": "Read", "input": {…}, "id": "…", "piece_chars": 3} · {"calls": "Read", "raw": ["{\\"f", ACT, …]} · ACT
ACT:    {"pause": 0.1} · {"hang": true} · {"cut": true} · {"reset": true} · {"clock": true}
"""

from typing import Any

from tests.support.messages_api.behaviors import Act, Reply, Usage
from tests.support.messages_api.failures import fails, hangs, html, resets
from tests.support.messages_api.replies import (
    Part,
    after,
    calls,
    calls_raw,
    clock,
    cut,
    cut_after,
    ends_after,
    hang,
    message,
    pause,
    reset,
    reset_after,
    says,
    slowly,
    thinks,
)
from tests.support.messages_api.scripts import Attempts, Script, loop

Json = dict[str, Any]


def parse_script(data: Json) -> Script:
    name = data.get("name", "default")
    if "loop" in data:
        loop_data = data["loop"]
        parallel = loop_data.get("parallel", 1)
        return loop(name, loop_data["times"], loop_data["tool"], loop_data["input"], parallel=parallel)
    otherwise = parse_reply(data["otherwise"]) if "otherwise" in data else None
    steps = (_parse_attempts(each) if "attempts" in each else parse_reply(each) for each in data["replies"])
    return Script(name, tuple(steps), otherwise)


def _parse_attempts(data: Json) -> Attempts:
    return Attempts(tuple(parse_reply(each) for each in data["attempts"]))


def parse_reply(data: Json) -> Reply:
    match data:
        case {"status": status, **rest}:
            return fails(status, **rest)
        case {"html": status}:
            return html(status)
        case {"hangs": True}:
            return hangs()
        case {"resets": True}:
            return resets()
        case _:
            return _apply_behavior(_parse_message(data), data)


def _parse_message(data: Json) -> Reply:
    usage = Usage(**data["usage"]) if "usage" in data else None
    return message(*map(_parse_part, data["parts"]), stop_reason=data.get("stop_reason"), usage=usage)


def _apply_behavior(reply: Reply, data: Json) -> Reply:
    for name, change in {"cut_after": cut_after, "reset_after": reset_after, "ends_after": ends_after}.items():
        if name in data:
            reply = change(reply, data[name])
    if "every" in data:
        reply = slowly(reply, data["every"])
    return after(reply, pause(data["after"])) if "after" in data else reply


def _parse_part(data: Json) -> Part:
    match data:
        case {"says": parts}:
            return says(*map(_parse_piece, _as_list(parts)))
        case {"thinks": parts, **rest}:
            return thinks(*map(_parse_piece, _as_list(parts)), **rest)
        case {"calls": name, "raw": parts, **rest}:
            return calls_raw(name, *map(_parse_piece, _as_list(parts)), **rest)
        case {"calls": name, "input": arguments, **rest}:
            return calls(name, arguments, **rest)
        case _:
            return _parse_act(data)


def _parse_piece(data: Any) -> str | Act:
    return data if isinstance(data, str) else _parse_act(data)


def _parse_act(data: Json) -> Act:
    match data:
        case {"pause": seconds}:
            return pause(seconds)
        case {"hang": True}:
            return hang()
        case {"cut": True}:
            return cut()
        case {"reset": True}:
            return reset()
        case {"clock": True}:
            return clock()
        case _:
            raise ValueError(f"not a part of a message: {data}")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
