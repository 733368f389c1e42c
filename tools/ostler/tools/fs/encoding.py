"""Detects the encoding of a file, decodes and encodes its text, piece by piece.

One call of a codec on a long text keeps every other thread waiting for the interpreter's lock, which is released
between two pieces.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.fs import charset

PIECE: Final = 256 * 1024
"""Bytes, or characters, that one call works on: a few milliseconds."""
_STRAY: Final = 0xF700
"""Private use: with a byte of 128 or more added, a character that no font and no file has."""
_ESCAPED: Final = compile_later("[\udc80-\udcff]")
"""What Python (`surrogateescape`) makes of bytes that are no UTF-8."""
_STRAY_CHARS: Final = compile_later(rb"\xef[\x9e\x9f][\x80-\xbf]")
"""The characters that replace those here, in UTF-8."""
_MOSTLY: Final = 4
_ENOUGH_STRAYS: Final = 10_000
"""After as many the rest does not matter."""
_GUESSED_PIECES: Final = 4
"""The pieces that are not plain ASCII on which a guess is made."""

Pieces = Callable[[], Iterable[bytes]]
"""All of a file, from its beginning, as often as it is asked for."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes become text, and back."""

    codec: str
    bom: bytes = b""
    strays: bool = False
    """It is UTF-8 but for a few bytes, as logs are: each of those becomes a private-use character."""

    def decode(self, data: bytes) -> str:
        """Raises UnicodeDecodeError."""
        return "".join(text for text, _ in self.decode_pieces(split_pieces(data)))

    def decode_pieces(self, pieces: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """Each piece of the text with the bytes it was decoded from. Raises UnicodeDecodeError."""
        decoder = self._make_decoder()
        bom, kept = self.bom, b""
        for piece in pieces:
            data = kept + piece.removeprefix(bom)
            text = decoder.decode(piece.removeprefix(bom))
            kept, bom = decoder.getstate()[0], b""
            yield self._replace_strays(text), data[: len(data) - len(kept)]
        yield self._replace_strays(decoder.decode(b"", True)), kept

    def decode_line(self, data: bytes, *, cut: bool) -> str:
        """Decodes bytes without BOM, which may end within a character if they were cut. Raises UnicodeDecodeError."""
        return self._replace_strays(self._make_decoder().decode(data, not cut))

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError where the encoding has no such character."""
        pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
        return b"".join([self.bom, *map(self.encode_piece, pieces)])

    def encode_piece(self, piece: str) -> bytes:
        """The same without BOM, in one call."""
        data = piece.encode(self.codec)
        if not self.strays or piece.isascii():
            return data
        return _STRAY_CHARS.sub(lambda found: bytes([ord(found[0].decode()) - _STRAY]), data)

    def _make_decoder(self) -> codecs.IncrementalDecoder:
        return codecs.getincrementaldecoder(self.codec)("surrogateescape" if self.strays else "strict")

    def _replace_strays(self, text: str) -> str:
        if not self.strays or text.isascii():
            return text
        return _ESCAPED.sub(lambda found: chr(ord(found[0]) - 0xDC00 + _STRAY), text)


UTF_8: Final = Encoding("utf-8")
# In the last one every byte is a character, so that nothing is lost when an edited file is written again.
_WESTERN: Final = (Encoding("cp1252"), Encoding("latin-1"))


def split_pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


def detect_encoding(pieces: Pieces, bom: bytes = b"") -> Encoding:
    """UTF-8 where it is, else the most likely legacy encoding; encoded again, the text gives the same bytes. Blocks.

    Read shows, and Edit writes, what this says of the whole file, so that both say the same of the same bytes.
    """
    return next(each for each in _list_candidates(pieces, bom) if _round_trips(each, pieces))


def decode_bytes(data: bytes, bom: bytes = b"") -> tuple[str, Encoding]:
    """The text of a whole file, and its encoding. Blocks."""
    # UTF-8 first, as most files are: the test gives the text already.
    marked = Encoding("utf-8", bom) if bom else UTF_8
    try:
        return marked.decode(data), marked
    except UnicodeDecodeError:
        encoding = detect_encoding(lambda: split_pieces(data), bom)
    return encoding.decode(data), encoding


def _list_candidates(pieces: Pieces, bom: bytes) -> Iterator[Encoding]:
    yield Encoding("utf-8", bom) if bom else UTF_8
    if bom or _is_nearly_utf_8(pieces):
        yield Encoding("utf-8", bom, strays=True)
    codec = charset.guess_codec(_take_non_ascii(pieces))
    if codec is not None:
        yield Encoding(codec)
    yield from _WESTERN


def _is_nearly_utf_8(pieces: Pieces) -> bool:
    """Whether most of what is not ASCII is UTF-8: bytes of another encoding hardly ever are."""
    others = strays = 0
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for piece in pieces():
        text = decoder.decode(piece)
        if text.isascii():
            continue
        others += len(text) - len(text.encode("ascii", "ignore"))
        strays += len(text.encode("utf-8", "surrogateescape")) - len(text.encode("utf-8", "ignore"))
        if strays > _ENOUGH_STRAYS:
            break
    return others - strays >= _MOSTLY * strays


def _take_non_ascii(pieces: Pieces) -> bytes:
    """A part of the file that is not plain ASCII."""
    found: list[bytes] = []
    for number, piece in enumerate(pieces()):
        if not piece.isascii():
            # The first line of a later piece may begin within a character.
            found.append((piece.partition(b"\n")[2] if number else b"") or piece)
            if len(found) == _GUESSED_PIECES:
                break
    return b"".join(found)


def _round_trips(encoding: Encoding, pieces: Pieces) -> bool:
    """Whether encoding the text again gives the same bytes: some encodings have two forms of one character."""
    try:
        one_way = encoding.codec == "utf-8" and not encoding.strays
        return all(one_way or encoding.encode_piece(text) == data for text, data in encoding.decode_pieces(pieces()))
    except UnicodeError:
        return False
