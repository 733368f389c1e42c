"""What a tool of an MCP server gave, as blocks for the model: texts, pictures, and files for all else."""

import base64
import binascii
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.tools.text import one_line
from ostler.tools.tool import Block, text_block

SaveFile = Callable[[bytes, str], str]
"""Keeps bytes in a file with this ending; returns its path. Raises OSError."""

_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_BLOCKS: Final = 500


@dataclass(frozen=True, slots=True)
class MappedContent:
    """The content of a result."""

    blocks: list[Block]
    """For the model."""
    shown: list[dict[str, Any]]
    """For clients, without the data of pictures, sounds and files."""


def map_content(content: Sequence[Any], structured: Any, save: SaveFile) -> MappedContent:
    """Maps a result. Writes files, and so blocks."""
    mapped = [_map_item(each, save) for each in content[:_MAX_BLOCKS]]
    blocks = [block for block, _ in mapped]
    if len(content) > _MAX_BLOCKS:
        blocks.append(text_block(f"({len(content) - _MAX_BLOCKS} more pieces of content were left out)"))
    if structured is not None and not any(_has_words(block) for block in blocks):
        blocks.append(text_block(orjson.dumps(structured, option=orjson.OPT_INDENT_2, default=str).decode()))
    return MappedContent(blocks, [shown for _, shown in mapped])


def _has_words(block: Block) -> bool:
    return block["type"] == "text" and bool(block["text"].strip())


def _map_item(item: Any, save: SaveFile) -> tuple[Block, dict[str, Any]]:
    if not isinstance(item, dict):
        return text_block("(a piece of content that is none)"), {"type": "unknown"}
    match item.get("type"):
        case "text":
            text = str(item.get("text", ""))
            return text_block(text), {"type": "text", "text": text}
        case "image" | "audio" as kind:
            return _map_data(kind, item.get("data"), item.get("mimeType"), item, save)
        case "resource_link":
            words = [str(item.get("name") or ""), str(item.get("uri") or ""), str(item.get("description") or "")]
            shown = one_line(" · ".join(word for word in words if word), 2_000)
            return text_block(f"(resource: {shown})"), {k: v for k, v in item.items() if k != "icons"}
        case "resource":
            return _map_resource(item.get("resource"), save)
        case kind:
            return text_block(f"(content of the unknown type {str(kind)[:50]!r})"), {"type": str(kind)[:50]}


def _map_resource(resource: Any, save: SaveFile) -> tuple[Block, dict[str, Any]]:
    if not isinstance(resource, dict):
        return text_block("(a resource that is none)"), {"type": "resource"}
    uri, text = str(resource.get("uri") or ""), resource.get("text")
    if isinstance(text, str):
        return text_block(f"{uri}:\n{text}"), {"type": "resource", "resource": resource}
    return _map_data("resource", resource.get("blob"), resource.get("mimeType"), resource, save, uri)


def _map_data(
    kind: str, data: Any, mime_type: Any, item: dict[str, Any], save: SaveFile, uri: str = ""
) -> tuple[Block, dict[str, Any]]:
    mime = str(mime_type or "application/octet-stream")[:100]
    what = f"{kind} {one_line(uri, 500)}".strip()
    raw = decode_base64(data)
    if raw is None:
        words = f"({what}: its data is no base64, and cannot be used)"
        return text_block(words), {"type": kind, "mimeType": mime, "error": "no base64"}
    shown = {"type": kind, "mimeType": mime, "bytes": len(raw), **({"uri": uri} if uri else {})}
    if mime in _PICTURES:
        encoded = base64.b64encode(raw).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": encoded}}, shown
    try:
        path = save(raw, find_ending(mime))
    except OSError as error:
        return text_block(f"({what}: {len(raw)} bytes of {mime}, which could not be saved: {error})"), shown
    return text_block(f"({what}: {len(raw)} bytes of {mime}, saved to {path})"), {**shown, "path": path}


def decode_base64(data: Any) -> bytes | None:
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def find_ending(mime: str) -> str:
    """The ending of a file of this type."""
    return mimetypes.guess_extension(mime.partition(";")[0].strip()) or ".bin"
