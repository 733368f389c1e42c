"""The size limits of results: a longer text is persisted, and the model is given a placeholder with a preview of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.ids import ResultId, new_result_id
from ostler.protocol.shapes import Call
from ostler.tools.tool import DEFAULT_MAX_RESULT_CHARS, AnyTool, Block, text_block

PREVIEW_CHARS: Final = 2000
_MIN_REPLACED_CHARS: Final = PREVIEW_CHARS + 500
"""A text that is shorter than its placeholder would be is not replaced."""
_CHUNK_CHARS: Final = 64 * 1024
_DEFAULTS: Final = ResultSettings()


@dataclass(frozen=True, slots=True)
class LimitedResult:
    """A result as the model is given it, within its limit."""

    blocks: list[Block]
    result_id: ResultId | None = None
    whole: str | None = None
    """The text that was too long, which is to be stored under that id."""


@dataclass(frozen=True, slots=True)
class TextPreview:
    """Size, beginning and end of a text that is too long."""

    size: int
    """In bytes."""
    beginning: str
    """Its first characters, as many as a preview has."""
    end: str


def join_text(blocks: Sequence[Block]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def resolve_limit(tool: AnyTool | None, settings: ResultSettings = _DEFAULTS) -> int | None:
    """The most characters of one result; null for a tool that limits its results itself."""
    if tool is None:
        return DEFAULT_MAX_RESULT_CHARS
    if tool.max_result_chars is None:
        return None
    return settings.max_chars.get(tool.name, min(tool.max_result_chars, DEFAULT_MAX_RESULT_CHARS))


def limit_result(tool: AnyTool | None, blocks: list[Block], settings: ResultSettings) -> LimitedResult:
    """The blocks, with a placeholder instead of their text where that is too long."""
    limit = resolve_limit(tool, settings)
    if limit is None or sum(len(block["text"]) for block in blocks if block["type"] == "text") <= limit:
        return LimitedResult(blocks)
    return _replace_text(tool, blocks)


def _replace_text(tool: AnyTool | None, blocks: Sequence[Block]) -> LimitedResult:
    whole, result_id = join_text(blocks), new_result_id()
    others = [block for block in blocks if block["type"] != "text"]
    return LimitedResult([*others, build_placeholder(tool, whole, result_id)], result_id, whole)


def fit_message(
    calls: Sequence[Call], tool_of: Callable[[Call], AnyTool | None], settings: ResultSettings
) -> list[tuple[Call, str]]:
    """Shorten the largest results so that those of one message fit: the changed calls, each with its whole text."""
    sizes = {call.call_id: len(join_text(call.content or ())) for call in calls}
    total = sum(sizes.values())
    replaced: list[tuple[Call, str]] = []
    # The sort is stable: the same results make the same message.
    for call in sorted(calls, key=lambda call: -sizes[call.call_id]):
        if total <= settings.per_message_chars or sizes[call.call_id] <= _MIN_REPLACED_CHARS:
            break
        tool = tool_of(call)
        if call.result_id is not None or resolve_limit(tool, settings) is None:
            continue
        limited = _replace_text(tool, call.content or ())
        total -= sizes[call.call_id] - len(join_text(limited.blocks))
        output = call.output
        if isinstance(output, dict) and "persisted_result_id" in output:
            output = {
                **output,
                "persisted_result_id": limited.result_id,
                "persisted_size": count_bytes(limited.whole or ""),
            }
        changed = call.model_copy(update={"content": limited.blocks, "result_id": limited.result_id, "output": output})
        replaced.append((changed, limited.whole or ""))
    return replaced


def build_placeholder(tool: AnyTool | None, text: str, result_id: ResultId) -> Block:
    """The placeholder that the model gets instead of a text that is too long."""
    return render_placeholder(
        tool, TextPreview(count_bytes(text), text[:PREVIEW_CHARS], text[-PREVIEW_CHARS:]), result_id
    )


def render_placeholder(tool: AnyTool | None, preview: TextPreview, result_id: ResultId) -> Block:
    """The same, from a preview: for a text that is not in memory as a whole."""
    size = f"{preview.size / 1024:.1f} KB"
    head = f"<persisted-output>\nOutput too large ({size}). Full output saved to: result://{result_id}\n"
    if tool is not None and tool.shows_both_ends:
        first, last = _cut_head(preview.beginning, PREVIEW_CHARS // 2), _cut_tail(preview.end, PREVIEW_CHARS // 2)
        return text_block(
            f"{head}First and last {PREVIEW_CHARS / 2000:.1f} KB:\n{first}\n…\n{last}\n</persisted-output>"
        )
    shown = _cut_head(preview.beginning, PREVIEW_CHARS)
    return text_block(f"{head}Preview (first {PREVIEW_CHARS / 1000:.1f} KB):\n{shown}\n…\n</persisted-output>")


def count_bytes(text: str) -> int:
    """The size in UTF-8, counted in chunks: to encode a long text at once would hold the GIL too long."""
    if text.isascii():
        return len(text)
    steps = range(0, len(text), _CHUNK_CHARS)
    return sum(len(text[first : first + _CHUNK_CHARS].encode("utf-8", "replace")) for first in steps)


def _cut_head(text: str, size: int) -> str:
    """The first characters, cut at a newline where one is in the second half of them."""
    newline = text.rfind("\n", size // 2, size)
    return text[: newline if newline >= 0 else size]


def _cut_tail(text: str, size: int) -> str:
    newline = text.find("\n", len(text) - size, len(text) - size // 2)
    return text[newline + 1 if newline >= 0 else len(text) - size :]


def cut_fields(value: Any, limit: int = DEFAULT_MAX_RESULT_CHARS) -> Any:
    """A tool's output for clients, with long texts cut: `docs/results.md` says where the whole of each is."""
    match value:
        case str() if len(value) > limit:
            return value[:limit] + f"… ({len(value) - limit} more characters)"
        case dict():
            return {key: cut_fields(each, limit) for key, each in value.items()}
        case list():
            return [cut_fields(each, limit) for each in value]
        case _:
            return value
