"""How much of a result the model is given: what is longer is kept whole elsewhere and shown in part."""

from typing import Any, Final

from ostler.protocol.ids import ResultId
from ostler.tools.tool import DEFAULT_MAX_RESULT_CHARS, AnyTool, Block, text_block

PREVIEW_CHARS: Final = 2000


def text_of(blocks: list[Block]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def limit_of(tool: AnyTool) -> int | None:
    if tool.max_result_chars is None:
        return None
    return min(tool.max_result_chars, DEFAULT_MAX_RESULT_CHARS)


def stand_in(tool: AnyTool, text: str, result_id: ResultId) -> Block:
    """What the model gets in the place of a text that is too long."""
    size = f"{len(text.encode('utf-8', 'replace')) / 1024:.1f} KB"
    head = f"<persisted-output>\nOutput too large ({size}). Full output saved to: result://{result_id}\n"
    if tool.is_shell:
        # A build's error stands last.
        first, last = _head(text, PREVIEW_CHARS // 2), _tail(text, PREVIEW_CHARS // 2)
        return text_block(
            f"{head}First and last {PREVIEW_CHARS / 2000:.1f} KB:\n{first}\n…\n{last}\n</persisted-output>"
        )
    shown = _head(text, PREVIEW_CHARS)
    return text_block(f"{head}Preview (first {PREVIEW_CHARS / 1000:.1f} KB):\n{shown}\n…\n</persisted-output>")


def _head(text: str, size: int) -> str:
    """Cut at a newline, where one is in the second half."""
    newline = text.rfind("\n", size // 2, size)
    return text[: newline if newline >= 0 else size]


def _tail(text: str, size: int) -> str:
    newline = text.find("\n", len(text) - size, len(text) - size // 2)
    return text[newline + 1 if newline >= 0 else len(text) - size :]


def cut_fields(value: Any, limit: int = DEFAULT_MAX_RESULT_CHARS) -> Any:
    """A tool's output for clients, with long texts cut: the whole is where `result_id` says."""
    match value:
        case str() if len(value) > limit:
            return value[:limit] + f"… ({len(value) - limit} more characters)"
        case dict():
            return {key: cut_fields(each, limit) for key, each in value.items()}
        case list():
            return [cut_fields(each, limit) for each in value]
        case _:
            return value
