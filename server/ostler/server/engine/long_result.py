"""A long text on its way into the store: piece by piece, so that nobody has it whole or waits for it long."""

from collections.abc import Iterable, Iterator
from typing import Final

from ostler.protocol import times
from ostler.protocol.ids import ResultId
from ostler.server.engine.budget import PREVIEW_CHARS, Extent
from ostler.server.engine.journal import Journal
from ostler.storage import Tx, results
from ostler.storage.results import PIECE_CHARS, PLAIN, Piece, ResultRecord
from ostler.tools.threads import read_in_thread

_PIECES: Final = 16
"""That are packed and written at once: other writes come between."""


class Intake:
    """Packs a text as it comes, and notes what will be said of it. What it does blocks."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._held = ""
        self._chars = self._size = 0
        self._beginning = self._end = ""

    def within(self, limit: int) -> str | None:
        """All of it, where it is not longer than that; what was read of a longer one is packed later."""
        read: list[str] = []
        chars = 0
        for piece in self._pieces:
            read.append(piece)
            chars += len(piece)
            if chars > limit:
                self._held = "".join(read)
                return None
        return "".join(read)

    def batch(self) -> list[Piece]:
        """The next pieces; none at its end."""
        packed: list[Piece] = []
        while len(packed) < _PIECES and (text := self._next()):
            packed.append(self._packed(text))
        return packed

    def _next(self) -> str:
        while len(self._held) < PIECE_CHARS and (more := next(self._pieces, None)) is not None:
            self._held += more
        text, self._held = self._held[:PIECE_CHARS], self._held[PIECE_CHARS:]
        return text

    def _packed(self, text: str) -> Piece:
        piece = results.packed(text, self._chars)
        self._chars += piece.chars
        self._size += piece.size
        self._beginning += text[: PREVIEW_CHARS - len(self._beginning)]
        self._end = (self._end + text[-PREVIEW_CHARS:])[-PREVIEW_CHARS:]
        return piece

    @property
    def extent(self) -> Extent:
        """Of what was packed."""
        return Extent(self._size, self._beginning, self._end)

    def record(self, result_id: ResultId, tool: str) -> ResultRecord:
        return ResultRecord(result_id, tool, PLAIN, self._chars, self._size, times.now())


def slices(text: str) -> Iterator[str]:
    """A text that is there already, as an intake takes it."""
    return (text[first : first + PIECE_CHARS] for first in range(0, len(text), PIECE_CHARS))


async def store_ahead(journal: Journal, intake: Intake, result_id: ResultId, tool: str) -> ResultRecord:
    """Store a long text step by step; it is known only when its call is stored, too."""
    while pieces := await read_in_thread(intake.batch):

        def work(tx: Tx, pieces: list[Piece] = pieces) -> int:
            return results.put_pieces(tx.connection, result_id, pieces)

        await journal.write(work)
    return intake.record(result_id, tool)
