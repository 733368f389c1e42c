"""Grep in a persisted result: the same ripgrep, which reads the text instead of files."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ostler.protocol.ids import ResultId
from ostler.tools.search import ripgrep
from ostler.tools.search.grep_output import Collected, Wanted, collect
from ostler.tools.search.stored_text import spooled


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """The one name that there is."""

    result_id: ResultId

    def relative(self, name: str) -> str:
        return name

    def found(self, name: str) -> str:
        return f"result://{self.result_id}"

    def visible(self, name: str) -> bool:
        return True


async def search_result(options: Sequence[str], pieces: AsyncIterator[str], wanted: Wanted) -> Collected:
    """Raises NoSuchResult, and what ripgrep complains about."""
    async with spooled(pieces) as text:
        # As text, whatever stands in it: what a command printed is no binary file because of a NUL.
        arguments = ["--text", *options, "--", "-"]
        return await ripgrep.search(arguments, lambda search: collect(search, wanted), text)
