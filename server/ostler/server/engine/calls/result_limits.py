"""How much of a result the model is given: what is longer is kept whole elsewhere and shown in part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.ids import ResultId, new_result_id
from ostler.protocol.shapes import Call
from ostler.tools.tool import DEFAULT_MAX_RESULT_CHARS, AnyTool, Block, text_block

PREVIEW_CHARS: Final = 2000
_WORTH_KEEPING: Final = PREVIEW_CHARS + 500
"""What is shorter than what would stand in its place is not replaced."""
_AT_ONCE: Final = 64 * 1024
_DEFAULTS: Final = ResultSettings()


@dataclass(frozen=True, slots=True)
class Bounded:
    """A result as the model is given it."""

    blocks: list[Block]
    result_id: ResultId | None = None
    whole: str | None = None
    """The text that was too long, which is to be stored under that id."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What is said and shown of a text that is too long."""

    size: int
    """In bytes."""
    beginning: str
    """Its first characters, as many as a preview has."""
    end: str


def text_of(blocks: Sequence[Block]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def limit_of(tool: AnyTool | None, settings: ResultSettings = _DEFAULTS) -> int | None:
    """Characters of one result; null for a tool that bounds itself."""
    if tool is None:
        return DEFAULT_MAX_RESULT_CHARS
    if tool.max_result_chars is None:
        return None
    return settings.max_chars.get(tool.name, min(tool.max_result_chars, DEFAULT_MAX_RESULT_CHARS))


def bounded(tool: AnyTool | None, blocks: list[Block], settings: ResultSettings) -> Bounded:
    """The blocks, or what stands for them where their text is too long."""
    limit = limit_of(tool, settings)
    if limit is None or sum(len(block["text"]) for block in blocks if block["type"] == "text") <= limit:
        return Bounded(blocks)
    return _kept(tool, blocks)


def _kept(tool: AnyTool | None, blocks: Sequence[Block]) -> Bounded:
    whole, result_id = text_of(blocks), new_result_id()
    others = [block for block in blocks if block["type"] != "text"]
    return Bounded([*others, stand_in(tool, whole, result_id)], result_id, whole)


def fitted(
    calls: Sequence[Call], tool_of: Callable[[Call], AnyTool | None], settings: ResultSettings
) -> list[tuple[Call, str]]:
    """What is kept so that the results of one message fit: the calls as they are then, each with its whole text."""
    sizes = {call.call_id: len(text_of(call.content or ())) for call in calls}
    total = sum(sizes.values())
    replaced: list[tuple[Call, str]] = []
    # The order of equals is that of the calls: the same results make the same message.
    for call in sorted(calls, key=lambda call: -sizes[call.call_id]):
        if total <= settings.per_message_chars or sizes[call.call_id] <= _WORTH_KEEPING:
            break
        tool = tool_of(call)
        if call.result_id is not None or limit_of(tool, settings) is None:
            continue
        kept = _kept(tool, call.content or ())
        total -= sizes[call.call_id] - len(text_of(kept.blocks))
        output = call.output
        if isinstance(output, dict) and "persisted_result_id" in output:
            output = {**output, "persisted_result_id": kept.result_id, "persisted_size": bytes_of(kept.whole or "")}
        changed = call.model_copy(update={"content": kept.blocks, "result_id": kept.result_id, "output": output})
        replaced.append((changed, kept.whole or ""))
    return replaced


def stand_in(tool: AnyTool | None, text: str, result_id: ResultId) -> Block:
    """What the model gets in the place of a text that is too long."""
    return stand_in_for(tool, Extent(bytes_of(text), text[:PREVIEW_CHARS], text[-PREVIEW_CHARS:]), result_id)


def stand_in_for(tool: AnyTool | None, extent: Extent, result_id: ResultId) -> Block:
    """The same, for a text that nobody has as a whole."""
    size = f"{extent.size / 1024:.1f} KB"
    head = f"<persisted-output>\nOutput too large ({size}). Full output saved to: result://{result_id}\n"
    if tool is not None and tool.shows_both_ends:
        first, last = _head(extent.beginning, PREVIEW_CHARS // 2), _tail(extent.end, PREVIEW_CHARS // 2)
        return text_block(
            f"{head}First and last {PREVIEW_CHARS / 2000:.1f} KB:\n{first}\n…\n{last}\n</persisted-output>"
        )
    shown = _head(extent.beginning, PREVIEW_CHARS)
    return text_block(f"{head}Preview (first {PREVIEW_CHARS / 1000:.1f} KB):\n{shown}\n…\n</persisted-output>")


def bytes_of(text: str) -> int:
    """In steps: encoding a long text at once would hold the interpreter's lock all the while."""
    if text.isascii():
        return len(text)
    steps = range(0, len(text), _AT_ONCE)
    return sum(len(text[first : first + _AT_ONCE].encode("utf-8", "replace")) for first in steps)


def _head(text: str, size: int) -> str:
    """Cut at a newline, where one is in the second half."""
    newline = text.rfind("\n", size // 2, size)
    return text[: newline if newline >= 0 else size]


def _tail(text: str, size: int) -> str:
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
