"""Suggests a known word for one that is misspelled."""

from collections.abc import Iterable


def suggest_spelling(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: a question with the closest word, or just the full stop where none is close."""
    # Only mistakes get here, and the library takes as long to load as all settings to read.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    found = process.extractOne(word, sorted(known), scorer=fuzz.ratio, processor=utils.default_process, score_cutoff=60)
    return f"; did you mean {found[0]!r}?" if found else "."
