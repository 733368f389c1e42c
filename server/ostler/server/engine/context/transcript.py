"""A conversation as plain text of a bounded length: for a summary where the conversation itself fits no window."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ostler.server.engine.context.rows import Row

_BLOCK_CHARS: Final = 4_000
_LEAST_CHARS: Final = 200


def render_transcript(rows: Sequence[Row], most_chars: int) -> str:
    """The beginning and the end of it, where the whole is longer."""
    parts = [_render_row(row, max(_LEAST_CHARS, min(_BLOCK_CHARS, most_chars // 4))) for row in rows]
    parts = [part for part in parts if part]
    if sum(map(len, parts)) <= most_chars:
        return "\n\n".join(parts)
    head, tail, size = parts[:1], list[str](), len(parts[0])
    for part in reversed(parts[1:]):
        size += len(part) + 2
        if size > most_chars:
            break
        tail.insert(0, part)
    left_out = len(parts) - len(head) - len(tail)
    return "\n\n".join([*head, f"(… {left_out} messages are left out here …)", *tail])


def cut_middle(text: str, most: int) -> str:
    """Its beginning and its end, with a word on what is left out between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n(… {len(text) - 2 * half:,} characters are left out here …)\n{text[-half:]}"


def _render_row(row: Row, most: int) -> str:
    texts = [text for block in row.blocks if (text := _render_block(block, most))]
    if not texts:
        return ""
    speaker = "assistant" if row.role == "assistant" else "results" if row.has_results else "person"
    return "\n".join([f"## {speaker}", *texts])


def _render_block(block: Mapping[str, Any], most: int) -> str:
    match block["type"]:
        case "text":
            return cut_middle(block["text"], most)
        case "tool_use":
            return f"calls {block['name']} {cut_middle(orjson.dumps(block['input']).decode(), most)}"
        case "tool_result":
            content = block["content"]
            inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
            shown = "\n".join(filter(None, (_render_block(each, most) for each in inner)))
            return f"{'failed' if block.get('is_error') else 'result'}: {shown}"
        case "image" | "document":
            return f"({block['type']})"
        case _:
            return ""  # thoughts: what came of them was said
