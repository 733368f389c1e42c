"""References to tools in a conversation that is sent to a provider that cannot follow them."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson

_MARK: Final = b'"tool_reference"'


def replace_references(pieces: Sequence[bytes], known: Collection[str]) -> list[bytes]:
    """The messages of a request, with words in the place of references to tools that it does not have deferred.

    The same pieces give the same bytes.
    """
    return [_replace_in(piece, known) if _MARK in piece else piece for piece in pieces]


def _replace_in(piece: bytes, known: Collection[str]) -> bytes:
    messages = orjson.loads(b"[%b]" % piece)
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
                block["content"] = [_describe(each, known) for each in block["content"]]
    return orjson.dumps(messages)[1:-1]


def _describe(block: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    if block.get("type") != "tool_reference" or block.get("tool_name") in known:
        return block
    return {"type": "text", "text": f"{block.get('tool_name')} was loaded."}
