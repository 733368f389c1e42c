"""Very long events of a provider: checked against limits before they are parsed, and split into pieces."""

from collections.abc import Iterator
from typing import Any, Final

from ostler.server.models.provider import RawEvent
from ostler.server.rpc.bounded_json import check_limits

LONG_BYTES: Final = 64 * 1024
"""From this size on, an event is checked before it is parsed."""
PIECE_CHARS: Final = 64 * 1024
"""What clients are sent at once, so that other work gets its turn in between."""
MAX_INPUT_VALUES: Final = 100_000
"""More than a model has room for in one answer; five times as many would block the event loop for half a second."""
_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_FIRST_TEXTS: Final = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def check_event(data: bytes) -> None:
    """Raises ParseError or InvalidRequest where parsing it would block the event loop for long."""
    if len(data) >= LONG_BYTES:
        check_limits(data, MAX_INPUT_VALUES)


def split_event(event: RawEvent) -> Iterator[RawEvent]:
    """The same event, or several shorter ones that say the same."""
    match event:
        case {"type": "content_block_delta", "delta": {"type": str(kind)} as delta} if kind in _TEXTS:
            name = _TEXTS[kind]
            for piece in _split_text(delta.get(name)):
                yield {**event, "delta": {**delta, name: piece}}
        case {"type": "content_block_start", "content_block": {"type": str(kind)} as block} if kind in _FIRST_TEXTS:
            delta_kind, name = _FIRST_TEXTS[kind]
            yield {**event, "content_block": {**block, name: ""}}
            for piece in _split_text(block.get(name)):
                delta = {"type": delta_kind, name: piece}
                yield {"type": "content_block_delta", "index": event.get("index"), "delta": delta}
        case _:
            yield event


def _split_text(text: Any) -> Iterator[Any]:
    if not isinstance(text, str):
        yield text
        return
    for at in range(0, len(text) or 1, PIECE_CHARS):
        yield text[at : at + PIECE_CHARS]
