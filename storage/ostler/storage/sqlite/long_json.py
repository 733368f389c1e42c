"""JSON encoding of values that may hold long texts, in pieces that release the GIL.

Encoding megabytes at once holds the GIL, so the event loop waits, whatever thread it is done on. Here a long text is
encoded piece by piece, and other threads run in between; short values are encoded at once.
"""

from typing import Any, Final

import orjson
from pydantic_core import to_json

from ostler.protocol.extent import count_chars
from ostler.protocol.wire import Wire

LONG_CHARS: Final = 256 * 1024
"""From this many characters on, in one text or in several together, do not encode on the event loop."""
_PIECE_CHARS: Final = 256 * 1024


def encode(thing: Wire) -> bytes:
    """Encode a wire model as JSON."""
    return encode_plain(thing.model_dump(mode="json")) if is_long(thing) else thing.encoded()


def encode_plain(value: Any) -> bytes:
    """Encode plain data (dicts, lists, texts, numbers) as JSON."""
    try:
        return orjson.dumps(_encode_long_texts(value))
    except TypeError:
        return to_json(value)  # a number of more than 64 bits, as a schema makes it of 1e25


def is_long(value: object) -> bool:
    """Whether it holds so much text that encoding it at once would block others noticeably."""
    return count_chars(value, LONG_CHARS) >= LONG_CHARS


def _encode_long_texts(value: Any) -> Any:
    """The same value, with its long texts replaced by encoded fragments."""
    match value:
        case str() if len(value) > _PIECE_CHARS:
            return orjson.Fragment(_encode_text(value))
        case dict() if is_long(value):
            return {name: _encode_long_texts(each) for name, each in value.items()}
        case list() if is_long(value):
            return [_encode_long_texts(each) for each in value]
        case _:
            return value


def _encode_text(text: str) -> bytes:
    pieces = (orjson.dumps(text[at : at + _PIECE_CHARS])[1:-1] for at in range(0, len(text), _PIECE_CHARS))
    return b"".join((b'"', *pieces, b'"'))
