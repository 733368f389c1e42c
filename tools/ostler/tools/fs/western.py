"""Whether bytes make sense as a text in a western language, by its letters and where they stand.

Statistics need more text than a small file has: in every encoding of Central Europe, and in those of DOS, a few letters
with accents look as likely as they do in the right one.
"""

# ruff: noqa: RUF001 - letters and marks that look alike are meant

import re
from typing import Final

CODEC: Final = "cp1252"
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
_WITHIN: Final = re.compile("[àèìòù](?=[^\\W\\d_])")
"""An Italian accent that is grave stands at the end of its word; a Czech letter in its place stands anywhere."""
_MARKS: Final = frozenset("\xa0©®°§«»·´¨¯¶€™•¡¿ªº¹²³µ£¢¥¤¦¬±×÷¼½¾“”„‘’‚‹›–—…†‰")
_MISPLACED: Final = re.compile(
    # After a letter these are letters of other encodings: `byłem` as `by³em`. A square metre is meant, and so is `nº`.
    "(?<=[^\\W\\d_])(?:[¹¡¿ªµ£¢¥¤¦¬±×÷¼½¾“„‘‚†‰]|(?<!m)[²³]|(?<![nN])º)"
    # Before one, these.
    "|(?<=[^\\W\\d_])[”…–—€™•](?=[^\\W\\d_])"
)


def is_western(sample: bytes) -> bool:
    try:
        text = sample.decode(CODEC)
    except UnicodeDecodeError:
        return False
    if _MISPLACED.search(text) is not None:
        return False
    letters = {letter for letter in text.lower() if not letter.isascii()} - _MARKS
    return any(letters <= set(language) and _fits(language, text) for language in _LANGUAGES)


def _fits(language: str, text: str) -> bool:
    return language != _ITALIAN or _WITHIN.search(text) is None
