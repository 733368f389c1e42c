"""From a tool's output to what the model and the clients are given, without holding up anybody where it is long."""

from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
from pydantic import BaseModel

from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.extent import chars_of
from ostler.protocol.ids import ResultId, new_result_id
from ostler.server.engine.calls.result_limits import Bounded, bounded, bytes_of, cut_fields, limit_of, stand_in_for
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.store_result import Intake, slices, store_ahead, text_within
from ostler.server.engine.journal.journal import Journal
from ostler.server.observability import logs
from ostler.storage.repositories.results import ResultRecord
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.threads import change_later, read_in_thread
from ostler.tools.tool import DEFAULT_MAX_RESULT_CHARS, AnyTool, Block, text_block

_LONG_CHARS: Final = 256 * 1024
"""Longer outputs are rendered on a thread, and stored ahead of the call that gave them."""


@dataclass(frozen=True, slots=True)
class Rendered:
    bounded: Bounded
    output: Any
    """For clients, with long fields cut."""
    whole: str | ResultRecord | None
    """The text that is to be stored, or what is to be said of it, where its pieces are stored already."""


async def rendered(
    tool: AnyTool, output: BaseModel, settings: ResultSettings, journal: Journal, spans: Spans
) -> Rendered:
    """Steps 7 and 8 of a call: render, fill if empty, persist if large."""
    spans.begin("render")
    long = output.long_text() if isinstance(output, LongOutput) else None
    if long is None and chars_of(output, _LONG_CHARS) < _LONG_CHARS:
        shown, data = _render(tool, output, settings, spans)
        return Rendered(shown, data, shown.whole)
    result: Rendered | None = None
    # The work is done: who stops the call now would lose what it gave, and it takes a second.
    with anyio.CancelScope(shield=True):
        result = await _rendered_long(tool, output, long, settings, journal, spans)
    assert result is not None
    return result


async def _rendered_long(
    tool: AnyTool, output: BaseModel, long: LongText | None, settings: ResultSettings, journal: Journal, spans: Spans
) -> Rendered:
    shown, data = await read_in_thread(_render, tool, output, settings, spans)
    if long is not None:
        try:
            return await _rendered_in_pieces(tool, long, data, settings, journal)
        except OSError as error:
            # What the output holds of it is better than nothing.
            logs.log.error("long_text_unreadable", tool=tool.name, exc_info=error)
        finally:
            change_later(long.close)
    whole: str | ResultRecord | None = shown.whole
    if shown.whole is not None and shown.result_id is not None and len(shown.whole) >= _LONG_CHARS:
        whole = await store_ahead(journal, Intake(slices(shown.whole)), shown.result_id, tool.name)
    return Rendered(replace(shown, whole=None), data, whole)


async def _rendered_in_pieces(
    tool: AnyTool, long: LongText, data: Any, settings: ResultSettings, journal: Journal
) -> Rendered:
    """Of an output that holds only a part of its text: all of it is stored, from where it is."""
    intake = Intake(long.pieces())
    # It may be short when it is clean: a progress bar is one line.
    text = await text_within(intake, limit_of(tool, settings) or DEFAULT_MAX_RESULT_CHARS)
    if text is not None:
        return Rendered(Bounded(_filled(tool, [text_block(text)])), _with_result(data, None, None), None)
    result_id = new_result_id()
    record = await store_ahead(journal, intake, result_id, tool.name)
    shown = Bounded([stand_in_for(tool, intake.extent, result_id)], result_id)
    return Rendered(shown, _with_result(data, result_id, record.total_bytes), record)


def _render(tool: AnyTool, output: BaseModel, settings: ResultSettings, spans: Spans) -> tuple[Bounded, Any]:
    try:
        blocks: list[Block] = tool.render(output)
        data = cut_fields(output.model_dump(mode="json", by_alias=True))
    except Exception as error:  # noqa: BLE001 - a boundary: the work is done, only its words are missing
        logs.log.error("render_failed", tool=tool.name, exc_info=error)
        blocks, data = [text_block(f"{tool.name} completed, but its result could not be shown: {error}")], None
    spans.begin("persist")
    shown = bounded(tool, _filled(tool, blocks), settings)
    return shown, data if shown.whole is None else _with_result(data, shown.result_id, bytes_of(shown.whole))


def _filled(tool: AnyTool, blocks: list[Block]) -> list[Block]:
    """An empty result confuses some models."""
    if not blocks or (len(blocks) == 1 and blocks[0].get("text", "x").strip() == ""):
        return [text_block(f"({tool.name} completed with no output)")]
    return blocks


def _with_result(data: Any, result_id: ResultId | None, size: int | None) -> Any:
    """The output for clients, with the place of its whole text where it has a field for that."""
    if not isinstance(data, dict) or "persisted_result_id" not in data:
        return data
    return {**data, "persisted_result_id": result_id, "persisted_size": size}
