"""A reply as the events of the Messages API's stream."""

from collections.abc import Iterator
from typing import Any, Final, assert_never

import orjson

from ostler.protocol.patterns import compile_later
from ostler.server.models.provider import RawEvent
from ostler.server.models.rehearsal.reply import PausePart, Reply, ReplyPart, TextPart, ThinkingPart, ToolUsePart

_WORDS: Final = compile_later(r"\s*\S+\s*|\s+")
_MAX_PIECES: Final = 400
_JSON_PIECE: Final = 24
_CHARS_PER_TOKEN: Final = 4

TimedEvent = tuple[RawEvent, float]
"""An event, and the seconds of silence that come before it; a delta's own pace comes on top."""


def build_events(reply: Reply, model: str) -> Iterator[TimedEvent]:
    """All events in order."""
    yield _build_start(reply, model), 0.0
    silence, index, written = 0.0, 0, 0
    for part in reply.parts:
        if isinstance(part, PausePart):
            silence += part.seconds
            continue
        block, deltas = _build_block(part)
        yield {"type": "content_block_start", "index": index, "content_block": block}, silence
        silence = 0.0
        for delta in deltas:
            written += max(len(str(value)) for value in delta.values())
            yield {"type": "content_block_delta", "index": index, "delta": delta}, 0.0
        yield {"type": "content_block_stop", "index": index}, 0.0
        index += 1
    reason = "tool_use" if reply.has_calls else "end_turn"
    yield (
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": max(1, written // _CHARS_PER_TOKEN)},
        },
        silence,
    )
    yield {"type": "message_stop"}, 0.0


def _build_start(reply: Reply, model: str) -> RawEvent:
    usage = {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }
    message: RawEvent = {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def _build_block(part: ReplyPart) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _split_words(text)]
        case ThinkingPart(text, signature):
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _split_words(text)]
            signed = {"type": "signature_delta", "signature": signature}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
        case ToolUsePart(id_, tool, given):
            encoded = orjson.dumps(given).decode()
            size = max(_JSON_PIECE, len(encoded) // _MAX_PIECES + 1)
            deltas = [
                {"type": "input_json_delta", "partial_json": encoded[at : at + size]}
                for at in range(0, len(encoded), size)
            ]
            return {"type": "tool_use", "id": id_, "name": tool, "input": {}}, deltas
        case PausePart():
            raise AssertionError("a silence is no block")
        case _:
            assert_never(part)


def _split_words(text: str) -> list[str]:
    """Word by word; a long text in larger pieces, so that it does not take for ever."""
    words = _WORDS.findall(text)
    step = len(words) // _MAX_PIECES + 1
    return ["".join(words[at : at + step]) for at in range(0, len(words), step)]
