"""What somebody meant who wrote a word that nobody knows."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: a question, or nothing where no word is near."""
    # Only mistakes get here, and the library takes as long to load as all settings to read.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    found = process.extractOne(word, sorted(known), scorer=fuzz.ratio, processor=utils.default_process, score_cutoff=60)
    return f"; did you mean {found[0]!r}?" if found else "."
