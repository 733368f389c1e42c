"""Finds the passage of a file that is most similar to a text that is not in it (fuzzy match)."""

from typing import Final

from ostler.tools.text import cut_line, number_line

_LINES_LOOKED_AT: Final = 200_000
_LINE_CHARS_LOOKED_AT: Final = 1_000
_LINE_CHARS_COMPARED: Final = 200
_WINDOW: Final = 40
_CANDIDATES: Final = 8
_AT_A_TIME: Final = 5_000
_CLOSE_ENOUGH: Final = 60.0


def find_closest_passage(text: str, wanted: str) -> str | None:
    """The numbered lines of the passage, or null where none is similar. Takes a fraction of a second on any file."""
    # Only failures get here, and the library takes as long to load as a call to run.
    from rapidfuzz import fuzz, process  # noqa: PLC0415

    spans = _find_line_spans(text)
    lines = [
        text[begin : min(end, begin + _LINE_CHARS_LOOKED_AT)].strip()[:_LINE_CHARS_COMPARED] for begin, end in spans
    ]
    # Without empty lines at the end; and the rest of a long text is not even split.
    wanted_lines = wanted.rstrip().split("\n", _WINDOW)[:_WINDOW]
    sought = [line.strip()[:_LINE_CHARS_COMPARED] for line in wanted_lines]
    # The longest line says most about where the passage is.
    anchor = max(range(len(sought)), key=lambda index: len(sought[index]))
    if not sought[anchor]:
        return None
    near: list[tuple[float, int]] = []
    # In chunks: each call holds the interpreter's lock.
    for start in range(0, len(lines), _AT_A_TIME):
        found = process.extract(
            sought[anchor],
            lines[start : start + _AT_A_TIME],
            scorer=fuzz.ratio,
            limit=_CANDIDATES,
            score_cutoff=_CLOSE_ENOUGH,
        )
        near += [(-score, start + place) for _, score, place in found]
    near = sorted(near)[:_CANDIDATES]
    best, best_score = -1, 0.0
    for _, place in near:
        start = max(0, place - anchor)
        window = lines[start : start + len(sought)]
        score = sum(fuzz.ratio(ours, theirs) for ours, theirs in zip(sought, window, strict=False)) / len(sought)
        if score > best_score:
            best, best_score = start, score
    if best_score < _CLOSE_ENOUGH:
        return None
    shown = [text[begin:end].removesuffix("\r") for begin, end in spans[best : best + len(sought)]]
    return "\n".join(number_line(number, cut_line(line)) for number, line in enumerate(shown, best + 1))


def _find_line_spans(text: str) -> list[tuple[int, int]]:
    """Where the first lines begin and end: to split all of a large file would hold the interpreter's lock too long."""
    spans: list[tuple[int, int]] = []
    place = 0
    while place <= len(text) and len(spans) < _LINES_LOOKED_AT:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        spans.append((place, end))
        place = end + 1
    return spans
