"""Renders a tool's output for the model and for clients; a long one on a thread, off the event loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
from pydantic import BaseModel

from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.extent import count_chars
from ostler.protocol.ids import ResultId, new_result_id
from ostler.server.engine.calls.result_limits import (
    LimitedResult,
    count_bytes,
    cut_fields,
    limit_result,
    render_placeholder,
    resolve_limit,
)
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.store_result import TextPacker, read_short_text, slice_text, store_ahead
from ostler.server.engine.journal.journal import Journal
from ostler.server.observability import logs
from ostler.storage.repositories.results import ResultRecord
from ostler.tools.formats.image_blocks import correct_images
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.threads import change_later, read_in_thread
from ostler.tools.tool import DEFAULT_MAX_RESULT_CHARS, AnyTool, Block, text_block

_MESSAGE_BLOCKS: Final = ("text", "image", "document")
_LONG_CHARS: Final = 256 * 1024
"""Longer outputs are rendered on a thread, and stored ahead of the call that gave them."""


@dataclass(frozen=True, slots=True)
class RenderedResult:
    """A result as the model, the clients and the store get it."""

    limited: LimitedResult
    output: Any
    """For clients, with long fields cut."""
    whole: str | ResultRecord | None
    """The whole text that is to be stored, or its record, where its pieces are stored already."""


async def render_result(
    tool: AnyTool, output: BaseModel, settings: ResultSettings, journal: Journal, spans: Spans
) -> RenderedResult:
    """Steps 7 and 8 of a call: render, fill if empty, persist if large."""
    spans.begin("render")
    long = output.open_long_text() if isinstance(output, LongOutput) else None
    if long is None and count_chars(output, _LONG_CHARS) < _LONG_CHARS:
        shown, data = _render(tool, output, settings, spans)
        return RenderedResult(shown, data, shown.whole)
    result: RenderedResult | None = None
    # The tool has run: to stop the call now would lose its result, and the rest takes a second.
    with anyio.CancelScope(shield=True):
        result = await _render_long(tool, output, long, settings, journal, spans)
    assert result is not None
    return result


def limit_messages(tool: AnyTool, messages: Sequence[Sequence[Block]], settings: ResultSettings) -> list[LimitedResult]:
    """The further messages of a call as the API takes them, each within the limit of the tool's results."""
    sendable = [correct_images([kept for block in blocks if (kept := _make_sendable(block))]) for blocks in messages]
    return [limit_result(tool, blocks, settings) for blocks in sendable if blocks]


def _make_sendable(block: Block) -> Block | None:
    """A block that a user message may hold; none for an empty text, which the API refuses."""
    kind = block.get("type")
    if kind == "text":
        return block if str(block.get("text", "")).strip() else None
    if kind in _MESSAGE_BLOCKS:
        return block
    return text_block(f"(A block of type {kind!r} was left out: a tool's messages hold {', '.join(_MESSAGE_BLOCKS)}.)")


async def _render_long(
    tool: AnyTool, output: BaseModel, long: LongText | None, settings: ResultSettings, journal: Journal, spans: Spans
) -> RenderedResult:
    shown, data = await read_in_thread(_render, tool, output, settings, spans)
    if long is not None:
        try:
            return await _render_in_pieces(tool, long, data, settings, journal)
        except OSError as error:
            # The part of it that the output holds is better than nothing.
            logs.log.error("long_text_unreadable", tool=tool.name, exc_info=error)
        finally:
            change_later(long.close)
    whole: str | ResultRecord | None = shown.whole
    if shown.whole is not None and shown.result_id is not None and len(shown.whole) >= _LONG_CHARS:
        whole = await store_ahead(journal, TextPacker(slice_text(shown.whole)), shown.result_id, tool.name)
    return RenderedResult(replace(shown, whole=None), data, whole)


async def _render_in_pieces(
    tool: AnyTool, long: LongText, data: Any, settings: ResultSettings, journal: Journal
) -> RenderedResult:
    """Render an output that holds only a part of its text: all of it is stored, read piece by piece from its file."""
    packer = TextPacker(long.pieces())
    # It may be short once it is cleaned: a progress bar becomes one line.
    text = await read_short_text(packer, resolve_limit(tool, settings) or DEFAULT_MAX_RESULT_CHARS)
    if text is not None:
        return RenderedResult(
            LimitedResult(_fill_empty(tool, [text_block(text)])), _add_result_id(data, None, None), None
        )
    result_id = new_result_id()
    record = await store_ahead(journal, packer, result_id, tool.name)
    shown = LimitedResult([render_placeholder(tool, packer.preview, result_id)], result_id)
    return RenderedResult(shown, _add_result_id(data, result_id, record.total_bytes), record)


def _render(tool: AnyTool, output: BaseModel, settings: ResultSettings, spans: Spans) -> tuple[LimitedResult, Any]:
    try:
        blocks: list[Block] = correct_images(tool.render(output))
        data = cut_fields(output.model_dump(mode="json", by_alias=True))
    except Exception as error:  # noqa: BLE001 - a boundary: the tool has run, only its text is missing
        logs.log.error("render_failed", tool=tool.name, exc_info=error)
        blocks, data = [text_block(f"{tool.name} completed, but its result could not be shown: {error}")], None
    spans.begin("persist")
    shown = limit_result(tool, _fill_empty(tool, blocks), settings)
    return shown, data if shown.whole is None else _add_result_id(data, shown.result_id, count_bytes(shown.whole))


def _fill_empty(tool: AnyTool, blocks: list[Block]) -> list[Block]:
    """Fill an empty result with a note: it confuses some models."""
    if not blocks or (len(blocks) == 1 and blocks[0].get("text", "x").strip() == ""):
        return [text_block(f"({tool.name} completed with no output)")]
    return blocks


def _add_result_id(data: Any, result_id: ResultId | None, size: int | None) -> Any:
    """The output for clients, with id and size of its whole text where it has fields for them."""
    if not isinstance(data, dict) or "persisted_result_id" not in data:
        return data
    return {**data, "persisted_result_id": result_id, "persisted_size": size}
