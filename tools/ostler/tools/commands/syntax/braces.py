"""Expands the braces of a word, as in `a{b,c}`, where nothing else in it is known only at run time."""

from typing import Final

from ostler.tools.commands.syntax.words import Word, read_word

_MAX_WORDS: Final = 1_000
_MAX_SCANNED: Final = 30_000
"""Characters that are looked at: each pair of braces multiplies the words, and each word is read anew for the next."""
_DECIDED_LATER: Final = frozenset("$`")


def expand_braces(word: Word) -> list[Word]:
    """The words that the shell makes of it; the word itself where that is not known, or they are too many."""
    if word.kind != "unknown" or "{" not in word.source or _DECIDED_LATER & set(word.source):
        return [word]
    finished, waiting, scanned = list[str](), [word.source], 0
    while waiting:
        source = waiting.pop(0)
        scanned += len(source)
        found = _find_alternatives(source)
        if found is None:
            finished.append(source)
        else:
            start, end, alternatives = found
            waiting = [source[:start] + each + source[end:] for each in alternatives] + waiting
        if len(finished) + len(waiting) > _MAX_WORDS or scanned > _MAX_SCANNED:
            return [word]
    return [read_word(source) for source in finished]


def _find_alternatives(source: str) -> tuple[int, int, list[str]] | None:
    """The first pair of braces with a comma in it: where it begins, where it ends, and what stands between commas."""
    for start, sign in _iter_unquoted(source):
        if sign == "{" and (found := _split_alternatives(source, start)) is not None:
            return (start, *found)
    return None


def _split_alternatives(source: str, start: int) -> tuple[int, list[str]] | None:
    depth, begin, alternatives = 0, start + 1, list[str]()
    for place, sign in _iter_unquoted(source):
        if place < start:
            continue
        if sign == "{":
            depth += 1
        elif sign == "," and depth == 1:
            alternatives.append(source[begin:place])
            begin = place + 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return (place + 1, [*alternatives, source[begin:place]]) if alternatives else None
    return None


def _iter_unquoted(source: str) -> list[tuple[int, str]]:
    """The braces and commas that no quote hides, with their places."""
    found, place, quote = list[tuple[int, str]](), 0, ""
    while place < len(source):
        sign = source[place]
        if sign == "\\" and quote != "'":
            place += 2
            continue
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "{},":
            found.append((place, sign))
        place += 1
    return found
