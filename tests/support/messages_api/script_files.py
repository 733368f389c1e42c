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


def script_of(told: Json) -> Script:
    name = told.get("name", "default")
    if "loop" in told:
        told_loop = told["loop"]
        parallel = told_loop.get("parallel", 1)
        return loop(name, told_loop["times"], told_loop["tool"], told_loop["input"], parallel=parallel)
    otherwise = reply_of(told["otherwise"]) if "otherwise" in told else None
    steps = (_attempts_of(each) if "attempts" in each else reply_of(each) for each in told["replies"])
    return Script(name, tuple(steps), otherwise)


def _attempts_of(told: Json) -> Attempts:
    return Attempts(tuple(reply_of(each) for each in told["attempts"]))


def reply_of(told: Json) -> Reply:
    match told:
        case {"status": status, **rest}:
            return fails(status, **rest)
        case {"html": status}:
            return html(status)
        case {"hangs": True}:
            return hangs()
        case {"resets": True}:
            return resets()
        case _:
            return _behaved(_message_of(told), told)


def _message_of(told: Json) -> Reply:
    usage = Usage(**told["usage"]) if "usage" in told else None
    return message(*map(_part_of, told["parts"]), stop_reason=told.get("stop_reason"), usage=usage)


def _behaved(reply: Reply, told: Json) -> Reply:
    for name, change in {"cut_after": cut_after, "reset_after": reset_after, "ends_after": ends_after}.items():
        if name in told:
            reply = change(reply, told[name])
    if "every" in told:
        reply = slowly(reply, told["every"])
    return after(reply, pause(told["after"])) if "after" in told else reply


def _part_of(told: Json) -> Part:
    match told:
        case {"says": parts}:
            return says(*map(_piece_of, _list(parts)))
        case {"thinks": parts, **rest}:
            return thinks(*map(_piece_of, _list(parts)), **rest)
        case {"calls": name, "raw": parts, **rest}:
            return calls_raw(name, *map(_piece_of, _list(parts)), **rest)
        case {"calls": name, "input": arguments, **rest}:
            return calls(name, arguments, **rest)
        case _:
            return _act_of(told)


def _piece_of(told: Any) -> str | Act:
    return told if isinstance(told, str) else _act_of(told)


def _act_of(told: Json) -> Act:
    match told:
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
            raise ValueError(f"not a part of a message: {told}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
