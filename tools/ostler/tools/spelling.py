"""Finds the known words that are closest to one that is misspelled."""

from collections.abc import Iterable

_MIN_SIMILARITY = 60


def find_close(word: str, known: Iterable[str], most: int | None = 1) -> list[str]:
    """Words that look like this one, whatever their case, the closest first."""
    # Only mistakes get here, and the library takes as long to load as a call to run.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    found = process.extract(
        word, list(known), scorer=fuzz.ratio, processor=utils.default_process, limit=most, score_cutoff=_MIN_SIMILARITY
    )
    return [close for close, _, _ in found]


def suggest_spelling(word: str, known: Iterable[str], end: str = ".") -> str:
    """The end of a sentence: a question with the closest word, or just the full stop where none is close."""
    close = find_close(word, sorted(known))
    return f"; did you mean {close[0]!r}?" if close else end
