"""Image blocks as the model's API takes them: an image is known by its bytes, not by the media type that somebody gave.

The API refuses a request with an image that is not what its block says, and every later request of the session with it.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from ostler.tools.formats.image import MAX_BASE64

_HEAD_CHARS: Final = 32
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NO_IMAGE: Final = "(An image was left out: its bytes are those of no PNG, JPEG, GIF or WebP.)"


def detect_media_type(head: bytes) -> str | None:
    """The media type of an image that models take, by its first bytes."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if head.startswith(signature)), None)


def correct_images(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks with the true media type of every image, also in results; what is no image is a text that says so."""
    return [_correct_block(block) for block in blocks]


def _correct_block(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    if block.get("type") == "tool_result" and isinstance(content, list):
        return {**block, "content": correct_images(content)}
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, dict) or source.get("type") != "base64":
        return block
    data = source.get("data")
    if isinstance(data, str) and len(data) > MAX_BASE64:
        return {"type": "text", "text": f"(An image was left out: with {len(data):,} characters it is too large.)"}
    media_type = detect_media_type(_decode_head(data))
    if media_type is None:
        return {"type": "text", "text": _NO_IMAGE}
    return (
        block if source.get("media_type") == media_type else {**block, "source": {**source, "media_type": media_type}}
    )


def _decode_head(data: object) -> bytes:
    try:
        return base64.b64decode(data[:_HEAD_CHARS]) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""
