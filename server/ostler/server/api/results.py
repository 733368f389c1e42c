"""The handlers of the result methods: read, search."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ostler.protocol.errors import InvalidParams
from ostler.protocol.patterns import compile_later
from ostler.protocol.result import ResultLine, ResultLines, ResultPart, ResultRead, ResultSearch
from ostler.server.engine.calls.stored_results import find_text, read_pieces
from ostler.server.events.event_log import EventLog
from ostler.tools.search import ripgrep
from ostler.tools.search.stored_text import spool

_LINE: Final = compile_later(rb"(\d+):(.*)", re.DOTALL)
_MAX_COLUMNS: Final = 500


@dataclass(frozen=True, slots=True)
class ResultMethods:
    log: EventLog

    async def read(self, params: ResultRead) -> ResultPart:
        record = await find_text(self.log, params.result_id)
        content = await self.log.read(
            lambda snapshot: snapshot.results.read(record.id, params.offset_chars, params.limit_chars)
        )
        end = params.offset_chars + len(content)
        return ResultPart(
            result_id=record.id,
            content=content,
            total_chars=record.total_chars,
            next_offset=end if content and end < record.total_chars else None,
        )

    async def search(self, params: ResultSearch) -> ResultLines:
        record = await find_text(self.log, params.result_id)
        async with spool(read_pieces(self.log, record)) as text:
            try:
                return await ripgrep.search(_build_options(params), lambda search: _collect(search, params), text)
            except ripgrep.RipgrepError as complaint:
                raise InvalidParams.of("pattern", str(complaint)) from None


def _build_options(params: ResultSearch) -> list[str]:
    # `--text`: what a command printed is not a binary file because there is a NUL in it.
    options = ["--text", "--no-filename", "--line-number", f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview"]
    options += ["--ignore-case"] if params.ignore_case else []
    return [*options, f"--regexp={params.pattern}", "--", "-"]


def _collect(search: ripgrep.Search, params: ResultSearch) -> ResultLines:
    """Collect one page of the lines that match. Blocks until there are enough."""
    found = (line for record in search.read_records(b"\n") if (line := _LINE.fullmatch(record)))
    # One more than is wanted: where there is one, there is a next page.
    shown = list(islice(found, params.offset, params.offset + params.limit + 1))
    more = len(shown) > params.limit
    lines = [ResultLine(line=int(line[1]), text=_decode_line(line[2])) for line in shown[: params.limit]]
    return ResultLines(
        result_id=params.result_id,
        lines=lines,
        next_offset=params.offset + len(lines) if more else None,
        timed_out=search.out_of_time,
    )


def _decode_line(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
