"""Events of a provider that says megabytes at once: bounded before they are read, and handed on in pieces."""

from collections.abc import Iterator
from typing import Any, Final

from ostler.server.models.provider import RawEvent
from ostler.server.rpc.bounded_json import check_limits

LONG_BYTES: Final = 64 * 1024
"""An event from which on it is looked at before it is read."""
PIECE_CHARS: Final = 64 * 1024
"""What clients are told at once, so that others have their turn between."""
MAX_INPUT_VALUES: Final = 100_000
"""More than a model has room for in one answer; five times as many would hold everybody up for half a second."""
_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_FIRST_TEXTS: Final = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def check_event(data: bytes) -> None:
    """Raises ParseError or InvalidRequest where reading it would hold everybody up."""
    if len(data) >= LONG_BYTES:
        check_limits(data, MAX_INPUT_VALUES)


def in_pieces(event: RawEvent) -> Iterator[RawEvent]:
    """The same event, or several that say the same."""
    match event:
        case {"type": "content_block_delta", "delta": {"type": str(kind)} as delta} if kind in _TEXTS:
            name = _TEXTS[kind]
            for piece in _pieces(delta.get(name)):
                yield {**event, "delta": {**delta, name: piece}}
        case {"type": "content_block_start", "content_block": {"type": str(kind)} as block} if kind in _FIRST_TEXTS:
            delta_kind, name = _FIRST_TEXTS[kind]
            yield {**event, "content_block": {**block, name: ""}}
            for piece in _pieces(block.get(name)):
                delta = {"type": delta_kind, name: piece}
                yield {"type": "content_block_delta", "index": event.get("index"), "delta": delta}
        case _:
            yield event


def _pieces(text: Any) -> Iterator[Any]:
    if not isinstance(text, str):
        yield text
        return
    for at in range(0, len(text) or 1, PIECE_CHARS):
        yield text[at : at + PIECE_CHARS]
