"""Estimates of tokens, for what no provider has counted yet: the only place that says how they are reckoned."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

BYTES_PER_TOKEN: Final = 4
"""The average of English and code, near enough for a bound."""
IMAGE_TOKENS: Final = 1_600
"""Of a picture as it is sent: scaled down to what the API takes."""
_DOCUMENT_BYTES_PER_TOKEN: Final = 30
"""Of a PDF document in base64: each page is read as text and as a picture."""


def estimate_tokens(content: bytes) -> int:
    """The tokens of blocks that are JSON already."""
    if b'"base64"' not in content:
        return -(-len(content) // BYTES_PER_TOKEN)
    return sum(map(estimate_block, orjson.loads(content)))


def estimate_block(block: Mapping[str, Any]) -> int:
    """The tokens of one block."""
    inner = block.get("content")
    if block.get("type") == "tool_result" and isinstance(inner, list):
        return sum(map(estimate_block, inner)) + 15
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        is_image = block.get("type") == "image"
        return IMAGE_TOKENS if is_image else len(source.get("data", "")) // _DOCUMENT_BYTES_PER_TOKEN
    return estimate_json(block)


def estimate_json(value: Any) -> int:
    """The tokens of a value that is sent as JSON: a tool, a schema."""
    return -(-len(orjson.dumps(value)) // BYTES_PER_TOKEN)
