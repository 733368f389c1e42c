"""Image blocks are known by their bytes."""

import base64
from typing import Any

import pytest

from ostler.tools.formats.image import MAX_BASE64, image_block
from ostler.tools.formats.image_blocks import correct_images
from tests.support.tables import try_each

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff\xe0", "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\0\0\0WEBP",
}  # fmt: skip


@try_each("called", [*HEADS, "image/svg+xml", "application/pdf"])
@try_each("is_a", HEADS)
def test_an_image_has_the_media_type_of_its_bytes(is_a: str, called: str) -> None:
    data = base64.b64encode(HEADS[is_a] + bytes(40)).decode()
    assert correct_images([image_block(called, data)]) == [image_block(is_a, data)]


@pytest.mark.parametrize("data", ["", "aGVsbG8=", "not base64!", base64.b64encode(b"<svg/>" * 9).decode()])
def test_what_is_no_image_becomes_a_text_that_says_so(data: str) -> None:
    (block,) = correct_images([image_block("image/png", data)])
    assert block["type"] == "text"
    assert "left out" in block["text"]


def test_an_image_that_the_api_would_not_take_for_its_size_is_left_out() -> None:
    data = base64.b64encode(HEADS["image/png"] + bytes(MAX_BASE64)).decode()
    (block,) = correct_images([image_block("image/png", data)])
    assert "too large" in block["text"]


def test_other_blocks_stay_as_they_are() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "x"},
        {"type": "image", "source": {"type": "url", "url": "https://localhost/x.png"}},
        {"type": "tool_result", "tool_use_id": "t", "content": "words"},
    ]
    assert correct_images(blocks) == blocks
