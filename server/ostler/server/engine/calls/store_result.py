"""A long text on its way into the store: piece by piece, so that nobody has it whole or waits for it long."""

from collections.abc import Iterable, Iterator
from typing import Final

from ostler.protocol import times
from ostler.protocol.ids import ResultId
from ostler.server.engine.calls.result_limits import PREVIEW_CHARS, Extent
from ostler.server.engine.journal.journal import Journal
from ostler.storage import Tx
from ostler.storage.repositories import results
from ostler.storage.repositories.results import PIECE_CHARS, PLAIN, Piece, ResultRecord
from ostler.tools.threads import read_in_thread

_PIECES: Final = 16
"""That are packed and written at once: other writes come between."""
_READ: Final = 32
"""Pieces that are read at once, whatever comes of them: of many newlines nothing may, and all others would wait."""


class Intake:
    """Packs a text as it comes, and notes what will be said of it. What it does blocks."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._read: list[str] = []
        self._held = ""
        self._ended = False
        self._chars = self._size = 0
        self._beginning = self._end = ""

    @property
    def over(self) -> bool:
        """All of it is packed."""
        return self._ended and not self._held

    def begin(self, limit: int) -> bool:
        """Read on for a moment; whether it is known by now that it is longer than that, or not."""
        for _ in range(_READ):
            self._read.append(self._next())
            if self._ended or sum(map(len, self._read)) > limit:
                self._held, self._read = "".join(self._read), []
                return True
        self._read = ["".join(self._read)]
        return False

    def all_within(self, limit: int) -> str | None:
        """All of it, where it is not longer than that; what was read of a longer one is packed later."""
        return self._held if self._ended and len(self._held) <= limit else None

    def batch(self) -> list[Piece]:
        """The next pieces; perhaps none, even before it is over."""
        packed: list[Piece] = []
        for _ in range(_READ):
            if len(self._held) < PIECE_CHARS:
                self._held += self._next()
            if len(self._held) >= PIECE_CHARS or (self._ended and self._held):
                packed.append(self._packed(self._held[:PIECE_CHARS]))
                self._held = self._held[PIECE_CHARS:]
            if len(packed) == _PIECES or self.over:
                break
        return packed

    def _next(self) -> str:
        more = next(self._pieces, None)
        self._ended = more is None
        return more or ""

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


async def text_within(intake: Intake, limit: int) -> str | None:
    """All of it, where it is not longer than that."""
    while not await read_in_thread(intake.begin, limit):
        pass
    return intake.all_within(limit)


async def store_ahead(journal: Journal, intake: Intake, result_id: ResultId, tool: str) -> ResultRecord:
    """Store a long text step by step; it is known only when its call is stored, too."""
    while not intake.over:
        pieces = await read_in_thread(intake.batch)

        def work(tx: Tx, pieces: list[Piece] = pieces) -> int:
            return results.put_pieces(tx.connection, result_id, pieces)

        if pieces:
            await journal.write(work)
    return intake.record(result_id, tool)
