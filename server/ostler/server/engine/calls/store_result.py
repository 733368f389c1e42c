"""Stores a long result piece by piece: it is never in memory as a whole, and other writes come between."""

import mimetypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ostler.protocol import times
from ostler.protocol.ids import ResultId, new_result_id
from ostler.server.engine.calls.result_limits import PREVIEW_CHARS, TextPreview
from ostler.server.engine.journal.journal import Journal
from ostler.storage import Tx
from ostler.storage.repositories import results
from ostler.storage.repositories.results import PIECE_CHARS, PLAIN, Piece, ResultRecord
from ostler.tools.services import SentFile
from ostler.tools.threads import read_in_thread

_BATCH_PIECES: Final = 16
"""Pieces that are compressed and written in one transaction: other writes come between."""
_READ_PIECES: Final = 32
"""Pieces that are read in one go on a thread, even where nothing comes of them, as of many newlines: others wait."""


class TextPacker:
    """Compresses a text as it is read, and keeps its size and preview. Its methods block."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._read: list[str] = []
        self._held = ""
        self._ended = False
        self._chars = self._size = 0
        self._beginning = self._end = ""

    @property
    def done(self) -> bool:
        """All of the text is packed."""
        return self._ended and not self._held

    def read_ahead(self, limit: int) -> bool:
        """Read some more pieces; returns whether it is known by now if the text is longer than the limit."""
        for _ in range(_READ_PIECES):
            self._read.append(self._read_piece())
            if self._ended or sum(map(len, self._read)) > limit:
                self._held, self._read = "".join(self._read), []
                return True
        self._read = ["".join(self._read)]
        return False

    def get_short_text(self, limit: int) -> str | None:
        """The whole text, where it is not longer than the limit; what was read of a longer one is packed later."""
        return self._held if self._ended and len(self._held) <= limit else None

    def pack_batch(self) -> list[Piece]:
        """Pack the next pieces; perhaps none, even before all is packed."""
        packed: list[Piece] = []
        for _ in range(_READ_PIECES):
            if len(self._held) < PIECE_CHARS:
                self._held += self._read_piece()
            if len(self._held) >= PIECE_CHARS or (self._ended and self._held):
                packed.append(self._pack(self._held[:PIECE_CHARS]))
                self._held = self._held[PIECE_CHARS:]
            if len(packed) == _BATCH_PIECES or self.done:
                break
        return packed

    def _read_piece(self) -> str:
        more = next(self._pieces, None)
        self._ended = more is None
        return more or ""

    def _pack(self, text: str) -> Piece:
        piece = results.pack_piece(text, self._chars)
        self._chars += piece.chars
        self._size += piece.size
        self._beginning += text[: PREVIEW_CHARS - len(self._beginning)]
        self._end = (self._end + text[-PREVIEW_CHARS:])[-PREVIEW_CHARS:]
        return piece

    @property
    def preview(self) -> TextPreview:
        """The preview of what was packed."""
        return TextPreview(self._size, self._beginning, self._end)

    def build_record(self, result_id: ResultId, tool: str) -> ResultRecord:
        return ResultRecord(result_id, tool, PLAIN, self._chars, self._size, times.now())


@dataclass(frozen=True, slots=True)
class StoredAttachments:
    """Keeps files for the people as results are kept: their records follow with the end of the call."""

    journal: Journal

    async def keep(self, name: str, chunks: Iterator[bytes]) -> SentFile:
        result_id = new_result_id()
        size = 0
        while pieces := await read_in_thread(_pack_chunks, chunks, size):

            def work(tx: Tx, pieces: list[Piece] = pieces) -> int:
                return tx.results.put_pieces(result_id, pieces)

            await self.journal.writes.write(work)
            size += sum(piece.size for piece in pieces)
        return SentFile(result_id, name, await read_in_thread(_guess_media_type, name), size)


def build_file_record(file: SentFile, tool: str) -> ResultRecord:
    return ResultRecord(file.id, tool, file.media_type, file.size, file.size, times.now(), file.name)


def _pack_chunks(chunks: Iterator[bytes], first: int) -> list[Piece]:
    packed: list[Piece] = []
    for chunk in islice(chunks, _BATCH_PIECES):
        packed.append(results.pack_bytes(chunk, first))
        first += len(chunk)
    return packed


def _guess_media_type(name: str) -> str:
    # By its name alone, for the client that saves it; nothing here is rendered.
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def slice_text(text: str) -> Iterator[str]:
    """A text that is in memory, as the pieces that a packer takes."""
    return (text[first : first + PIECE_CHARS] for first in range(0, len(text), PIECE_CHARS))


async def read_short_text(packer: TextPacker, limit: int) -> str | None:
    """The whole text, where it is not longer than the limit."""
    while not await read_in_thread(packer.read_ahead, limit):
        pass
    return packer.get_short_text(limit)


async def store_ahead(journal: Journal, packer: TextPacker, result_id: ResultId, tool: str) -> ResultRecord:
    """Store a long text in several transactions, before its call; it can be found only once its call is stored."""
    while not packer.done:
        pieces = await read_in_thread(packer.pack_batch)

        def work(tx: Tx, pieces: list[Piece] = pieces) -> int:
            return tx.results.put_pieces(result_id, pieces)

        if pieces:
            await journal.writes.write(work)
    return packer.build_record(result_id, tool)
