"""JSON of things that may hold long texts.

Who encodes megabytes at once keeps the interpreter to himself meanwhile, and the event loop waits, whatever thread it
is done on. Here a long text is encoded piece by piece, with room for others between; what is short takes the short way.
"""

from typing import Any, Final

import orjson
from pydantic_core import to_json

from ostler.protocol.extent import chars_of
from ostler.protocol.wire import Wire

LONG_CHARS: Final = 256 * 1024
"""A text, or several together, from which on it is better not to be done on the event loop."""
_PIECE_CHARS: Final = 256 * 1024


def encoded(thing: Wire) -> bytes:
    """A thing of the wire as JSON."""
    return dumped(thing.model_dump(mode="json")) if is_long(thing) else thing.encoded()


def dumped(value: Any) -> bytes:
    """Plain data as JSON."""
    try:
        return orjson.dumps(_with_texts_encoded(value))
    except TypeError:
        return to_json(value)  # a number of more than 64 bits, as a schema makes it of 1e25


def is_long(value: object) -> bool:
    """Whether there is so much text in it that others would notice."""
    return chars_of(value, LONG_CHARS) >= LONG_CHARS


def _with_texts_encoded(value: Any) -> Any:
    """The same with its long texts as JSON already."""
    match value:
        case str() if len(value) > _PIECE_CHARS:
            return orjson.Fragment(_text(value))
        case dict() if is_long(value):
            return {name: _with_texts_encoded(each) for name, each in value.items()}
        case list() if is_long(value):
            return [_with_texts_encoded(each) for each in value]
        case _:
            return value


def _text(text: str) -> bytes:
    pieces = (orjson.dumps(text[at : at + _PIECE_CHARS])[1:-1] for at in range(0, len(text), _PIECE_CHARS))
    return b"".join((b'"', *pieces, b'"'))
