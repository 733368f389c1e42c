"""A scripted message as JSON, for requests without `stream`, and for servers that know no streams."""

import uuid
from dataclasses import replace
from typing import Any, Final

import orjson

from tests.support.messages_api.behaviors import Act, Clock, Cut, Hang, Hold, Pause, Reply, Reset, Send, Start

_HEADERS: Final = {"content-type": "application/json"}
_TEXTS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "input",
}

_CALLS: Final = frozenset({"tool_use", "server_tool_use"})


def render_whole(reply: Reply, model: str) -> Reply:
    """The same message at once: what waits in its stream, waits before it; what breaks off, does so in the middle."""
    if reply.body is not None or reply.status != 200:
        return reply
    message: dict[str, Any] = {"id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant"}
    message |= {"model": model, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {}}
    before, broken = list(reply.before), None
    for act in reply.acts:
        match act:
            case Start(usage):
                message["usage"] |= {
                    "input_tokens": usage.input_tokens,
                    "cache_creation_input_tokens": usage.cache_creation_input_tokens,
                    "cache_read_input_tokens": usage.cache_read_input_tokens,
                }
            case Send(data):
                _apply_event(message, orjson.loads(data.partition(b"data: ")[2]))
            case Pause() | Hold():
                before.append(act)
            case Cut() | Reset() | Hang():
                broken = act
                break
            case Clock():
                pass
            case _:
                raise ValueError(f"{act} has no place in a message that comes whole")
    return _build_reply(reply, message, before, broken)


def _build_reply(reply: Reply, message: dict[str, Any], before: list[Act], broken: Act | None) -> Reply:
    body = orjson.dumps(message)
    headers = {**{name: value for name, value in reply.headers.items() if name == "request-id"}, **_HEADERS}
    if broken is None:
        return replace(reply, headers=headers, body=body, acts=(), before=tuple(before))
    half = (Send(body[: len(body) // 2]), broken)
    return replace(reply, headers=headers, acts=half, before=tuple(before))


def _apply_event(message: dict[str, Any], event: dict[str, Any]) -> None:
    match event["type"]:
        case "content_block_start":
            message["content"].append(dict(event["content_block"]))
        case "content_block_delta":
            block, delta = message["content"][-1], event["delta"]
            if delta["type"] == "citations_delta":
                block["citations"].append(delta["citation"])
                return
            name = _TEXTS[delta["type"]]
            before = block.get(name, "")  # what a call begins with is an object: the input of one that has no deltas
            block[name] = (before if isinstance(before, str) else "") + delta[
                name if name != "input" else "partial_json"
            ]
        case "content_block_stop" if message["content"][-1]["type"] in _CALLS:
            block = message["content"][-1]
            if isinstance(block["input"], str):
                block["input"] = orjson.loads(block["input"] or "{}")
        case "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
        case _:
            pass
