"""Persisted results in memory, as the tools are given them."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from ostler.protocol.ids import ResultId
from ostler.tools.services import NoSuchResult
from ostler.tools.tool import AnyTool, Failure, ToolResult
from tests.support.tool_calls import Session


@dataclass(frozen=True, slots=True)
class StoredResults:
    """Results by id, handed out in pieces of a few characters."""

    texts: Mapping[str, str]
    piece_chars: int = 7

    async def read_pieces(self, result_id: ResultId) -> AsyncIterator[str]:
        if result_id not in self.texts:
            raise NoSuchResult(f"There is no result {result_id!r}.")
        text = self.texts[result_id]
        for first in range(0, len(text), self.piece_chars):
            yield text[first : first + self.piece_chars]


async def call_with_results(
    session: Session, tool: AnyTool, kept: StoredResults, given: Mapping[str, Any]
) -> ToolResult[Any] | Failure:
    return await session.call(tool, given, session.make_context(results=kept))
