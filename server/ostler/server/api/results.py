"""The result methods: read, search."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ostler.protocol.errors import InvalidParams
from ostler.protocol.result import ResultLine, ResultLines, ResultPart, ResultRead, ResultSearch
from ostler.server.engine.calls.stored_results import find_result, pieces_of
from ostler.server.events.event_log import EventLog
from ostler.storage.repositories import results
from ostler.tools.search import ripgrep
from ostler.tools.search.stored_text import spooled

_LINE: Final = re.compile(rb"(\d+):(.*)", re.DOTALL)
_MAX_COLUMNS: Final = 500


@dataclass(frozen=True, slots=True)
class ResultMethods:
    log: EventLog

    async def read(self, params: ResultRead) -> ResultPart:
        record = await find_result(self.log, params.result_id)
        content = await self.log.read(
            lambda connection: results.read(connection, record.id, params.offset_chars, params.limit_chars)
        )
        end = params.offset_chars + len(content)
        return ResultPart(
            result_id=record.id,
            content=content,
            total_chars=record.total_chars,
            next_offset=end if content and end < record.total_chars else None,
        )

    async def search(self, params: ResultSearch) -> ResultLines:
        record = await find_result(self.log, params.result_id)
        async with spooled(pieces_of(self.log, record)) as text:
            try:
                return await ripgrep.search(_options(params), lambda search: _collect(search, params), text)
            except ripgrep.Complaint as complaint:
                raise InvalidParams.of("pattern", str(complaint)) from None


def _options(params: ResultSearch) -> list[str]:
    # As text, whatever stands in it: what a command printed is no binary file because of a NUL.
    options = ["--text", "--no-filename", "--line-number", f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview"]
    options += ["--ignore-case"] if params.ignore_case else []
    return [*options, f"--regexp={params.pattern}", "--", "-"]


def _collect(search: ripgrep.Search, params: ResultSearch) -> ResultLines:
    """Blocks until there is enough."""
    found = (line for record in search.records(b"\n") if (line := _LINE.fullmatch(record)))
    # One more than is wanted, which tells that there are more.
    shown = list(islice(found, params.offset, params.offset + params.limit + 1))
    more = len(shown) > params.limit
    lines = [ResultLine(line=int(line[1]), text=_text(line[2])) for line in shown[: params.limit]]
    return ResultLines(
        result_id=params.result_id,
        lines=lines,
        next_offset=params.offset + len(lines) if more else None,
        timed_out=search.out_of_time,
    )


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
