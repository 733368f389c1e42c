"""From a tool's output to what the model and the clients are given, without holding up anybody where it is long."""

from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
from pydantic import BaseModel

from ostler.protocol import times
from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.ids import ResultId
from ostler.server import logs
from ostler.server.engine.budget import Bounded, bounded, bytes_of, cut_fields
from ostler.server.engine.journal import Journal
from ostler.storage import Tx, results
from ostler.storage.results import PIECE_CHARS, PLAIN, Piece, ResultRecord
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import AnyTool, Block, text_block

_LONG_CHARS: Final = 256 * 1024
"""Longer outputs are rendered on a thread, and stored ahead of the call that gave them."""
_PIECES: Final = 16
"""That are packed and written at once: other writes come between."""


@dataclass(frozen=True, slots=True)
class Rendered:
    bounded: Bounded
    output: Any
    """For clients, with long fields cut."""
    whole: str | ResultRecord | None
    """The text that is to be stored, or what is to be said of it, where its pieces are stored already."""


async def rendered(tool: AnyTool, output: BaseModel, settings: ResultSettings, journal: Journal) -> Rendered:
    """Steps 7 and 8 of a call: render, fill if empty, persist if large."""
    if _chars_of(output, _LONG_CHARS) < _LONG_CHARS:
        shown, data = _render(tool, output, settings)
        return Rendered(shown, data, shown.whole)
    result: Rendered | None = None
    # The work is done: who stops the call now would lose what it gave, and it takes a second.
    with anyio.CancelScope(shield=True):
        result = await _rendered_long(tool, output, settings, journal)
    assert result is not None
    return result


async def _rendered_long(tool: AnyTool, output: BaseModel, settings: ResultSettings, journal: Journal) -> Rendered:
    shown, data = await read_in_thread(_render, tool, output, settings)
    whole: str | ResultRecord | None = shown.whole
    if shown.whole is not None and shown.result_id is not None and len(shown.whole) >= _LONG_CHARS:
        whole = await _store_ahead(journal, shown.result_id, shown.whole, tool.name)
    return Rendered(replace(shown, whole=None), data, whole)


def _render(tool: AnyTool, output: BaseModel, settings: ResultSettings) -> tuple[Bounded, Any]:
    try:
        blocks: list[Block] = tool.render(output)
        data = cut_fields(output.model_dump(mode="json", by_alias=True))
    except Exception as error:  # noqa: BLE001 - a boundary: the work is done, only its words are missing
        logs.log.error("render_failed", tool=tool.name, exc_info=error)
        blocks, data = [text_block(f"{tool.name} completed, but its result could not be shown: {error}")], None
    if not blocks or (len(blocks) == 1 and blocks[0].get("text", "x").strip() == ""):
        blocks = [text_block(f"({tool.name} completed with no output)")]
    shown = bounded(tool, blocks, settings)
    if isinstance(data, dict) and "persisted_result_id" in data and shown.whole is not None:
        data.update(persisted_result_id=shown.result_id, persisted_size=bytes_of(shown.whole))
    return shown, data


def _chars_of(value: object, enough: int) -> int:
    """How long the texts in an output are together, counted only as far as it matters."""
    match value:
        case str():
            return len(value)
        case BaseModel():
            return _chars_of(value.__dict__, enough)
        case dict():
            return _chars_of(list(value.values()), enough)
        case list() | tuple():
            total = 0
            for each in value:
                total += _chars_of(each, enough)
                if total >= enough:
                    break
            return total
        case _:
            return 0


async def _store_ahead(journal: Journal, result_id: ResultId, text: str, tool: str) -> ResultRecord:
    """Store a long text step by step; it is known only when its call is stored, too."""
    total_bytes = 0
    for first in range(0, len(text), _PIECES * PIECE_CHARS):
        pieces = await read_in_thread(_packed, text, first)

        def work(tx: Tx, pieces: list[Piece] = pieces) -> int:
            return results.put_pieces(tx.connection, result_id, pieces)

        total_bytes += await journal.write(work)
    return ResultRecord(result_id, tool, PLAIN, len(text), total_bytes, times.now())


def _packed(text: str, first: int) -> list[Piece]:
    return list(results.pack(text, first, first + _PIECES * PIECE_CHARS))
