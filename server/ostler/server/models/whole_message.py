"""A message that came whole, without streaming: taken apart into the events that its stream would have had."""

from collections.abc import Iterator
from typing import Any

import orjson

from ostler.server.models.long_events import split_event
from ostler.server.models.provider import RawEvent


def split_message(message: dict[str, Any]) -> Iterator[RawEvent]:
    """The events of a message, `message_stop` included; raises ValueError where it is none."""
    content = message.get("content")
    if message.get("type") != "message" or not isinstance(content, list):
        raise ValueError("JSON that is no message")
    yield {"type": "message_start", "message": {**message, "content": []}}
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise ValueError("a message with a block that is no object")
        yield from _split_block(block, index)
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield {"type": "message_delta", "delta": delta, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def _split_block(block: dict[str, Any], index: int) -> Iterator[RawEvent]:
    """Its start and its deltas: what is long comes in pieces, as everywhere."""
    start: RawEvent = {"type": "content_block_start", "index": index}
    match block.get("type"):
        case "tool_use":
            # As text, so that it is parsed within the limits for what a model writes, and shown to clients.
            text = orjson.dumps(block.get("input")).decode()
            yield {**start, "content_block": {**block, "input": {}}}
            yield from split_event(_build_delta(index, {"type": "input_json_delta", "partial_json": text}))
        case "text":
            citations = block.get("citations") or ()
            plain = {name: value for name, value in block.items() if name != "citations"}
            yield from split_event({**start, "content_block": plain})
            for citation in citations:
                yield _build_delta(index, {"type": "citations_delta", "citation": citation})
        case _:
            yield from split_event({**start, "content_block": block})


def _build_delta(index: int, delta: dict[str, Any]) -> RawEvent:
    return {"type": "content_block_delta", "index": index, "delta": delta}
