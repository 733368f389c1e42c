"""Guesses the legacy charset of a text that is not UTF-8, and recognises Western European text (cp1252)."""

from typing import Final

from ostler.protocol.patterns import compile_later

# ruff: noqa: RUF001 - letters and marks that look alike are meant


_SAMPLE_BYTES: Final = 32 * 1024
"""Bytes that are examined: more of them make the guess slower, and hardly better."""
_MAX_CHAOS: Final = 0.3
_CENTRAL: Final = frozenset({"cp1250", "iso8859_2"})
_DOS: Final = frozenset({"cp850", "cp866"})
_CLEARLY: Final = 0.1
"""How much less chaos makes a text Central European and not western: they look alike where they share their letters."""
_HIGH: Final = compile_later(rb"[\x80-\xff]")
_DOS_LETTER: Final = compile_later(rb"[\x80-\x9f]")
"""Nearly all letters of DOS's encodings, and hardly anything in the others."""
_LETTER: Final = compile_later(rb"[A-Za-z]")
_WORD: Final = compile_later(rb"[\x80-\xff]{4}")
"""No western word has so many letters with accents one after the other."""
_ENOUGH: Final = 8
"""Bytes that are not ASCII; fewer could be a Chinese character or two as well."""
_BOUNDARY: Final = compile_later(rb"[\x00-\x2f]")
"""Bytes that are no part of a longer character in any of them."""
WESTERN_CODEC: Final = "cp1252"
_LANGUAGES: Final = (
    "äöüßé",  # German
    "àâçéèêëîïôœùûüÿ",  # French
    "áéíñóúüïàèòç",  # Spanish, Catalan
    "àáâãçéêíóôõú",  # Portuguese
    "àèéìíîòóùú",  # Italian
    "åäöøæéüà",  # Swedish, Danish, Norwegian, Finnish
    "áéëïóöüèêç",  # Dutch
)
_ITALIAN: Final = _LANGUAGES[4]
_GRAVE_WITHIN_WORD: Final = compile_later("[àèìòù](?=[^\\W\\d_])")
"""An Italian accent that is grave stands at the end of its word; a Czech letter in its place stands anywhere."""
_MARKS: Final = frozenset("\xa0©®°§«»·´¨¯¶€™•¡¿ªº¹²³µ£¢¥¤¦¬±×÷¼½¾“”„‘’‚‹›–—…†‰")
_MISPLACED: Final = compile_later(
    # After a letter these are letters of other encodings: `byłem` as `by³em`. A square metre is meant, and so is `nº`.
    "(?<=[^\\W\\d_])(?:[¹¡¿ªµ£¢¥¤¦¬±×÷¼½¾“„‘‚†‰]|(?<!m)[²³]|(?<![nN])º)"
    # Before one, these.
    "|(?<=[^\\W\\d_])[”…–—€™•](?=[^\\W\\d_])"
)
# Few, the usual ones first: of all that exist, there is always an exotic one in which a short text makes sense, too.
_CANDIDATES: Final = (
    WESTERN_CODEC, "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "cp1254", "cp1255",
    "cp1256", "cp850", "cp932", "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
_LATIN: Final = _CENTRAL | {WESTERN_CODEC, "cp1254", "cp850"}


def guess_codec(data: bytes) -> str | None:
    """The most likely codec; None where none is. Takes up to some tenths of a second: not on the event loop."""
    sample = _take_sample(data)
    if _WORD.search(sample) is None and (len(_HIGH.findall(sample)) < _ENOUGH or is_western(sample)):
        return WESTERN_CODEC
    # Most files are UTF-8, and never get here.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    candidates = _list_candidates(sample)
    found = from_bytes(sample, cp_isolation=candidates, threshold=_MAX_CHAOS, preemptive_behaviour=False)
    best = found.best()
    if best is None:
        return None
    equals = {best.encoding, *best.could_be_from_charset}
    equals |= {each.encoding for each in found if each.chaos <= best.chaos and each.coherence >= best.coherence}
    if best.encoding in _CENTRAL:
        near = (each for each in found if each.chaos <= best.chaos + _CLEARLY)
        equals |= {name for each in near for name in (each.encoding, *each.could_be_from_charset)} & {WESTERN_CODEC}
    return next((each for each in candidates if each in equals), best.encoding)


def _list_candidates(sample: bytes) -> list[str]:
    without = frozenset[str]() if _DOS_LETTER.search(sample) else _DOS
    # A text with hardly a letter of ASCII is in another script than the Latin one.
    if len(_LETTER.findall(sample)) * 10 < len(_HIGH.findall(sample)):
        without |= _LATIN
    return [each for each in _CANDIDATES if each not in without]


def _take_sample(data: bytes) -> bytes:
    """The first lines that are not plain ASCII: the others say nothing about the charset."""
    parts: list[bytes] = []
    room, place = _SAMPLE_BYTES, 0
    while room > 0 and (high := _HIGH.search(data, place)) is not None:
        start = max(data.rfind(b"\n", place, high.start()) + 1, place, high.start() - _SAMPLE_BYTES // 4)
        end = data.find(b"\n", high.start()) + 1 or len(data)
        parts.append(_cut_sample(data, start, end, room))
        room -= len(parts[-1])
        place = end
    return b"".join(parts)


def _cut_sample(data: bytes, start: int, end: int, room: int) -> bytes:
    if end - start <= room:
        return data[start:end]
    # Not within a character, which would make the right encoding look wrong.
    stop = _BOUNDARY.search(data, start + room, start + room + _SAMPLE_BYTES)
    return data[start : stop.start() if stop else start + room]


def is_western(sample: bytes) -> bool:
    try:
        text = sample.decode(WESTERN_CODEC)
    except UnicodeDecodeError:
        return False
    if _MISPLACED.search(text) is not None:
        return False
    letters = {letter for letter in text.lower() if not letter.isascii()} - _MARKS
    return any(letters <= set(language) and _fits(language, text) for language in _LANGUAGES)


def _fits(language: str, text: str) -> bool:
    return language != _ITALIAN or _GRAVE_WITHIN_WORD.search(text) is None
