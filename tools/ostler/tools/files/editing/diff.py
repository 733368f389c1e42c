"""Computes the diff of two texts in bounded time, and renders it for people and for the model."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from ostler.tools.text import cut_line, number_line
from ostler.tools.tool import ToolOutput

MAX_PATCH_CHARS: Final = 100_000
_MAX_MIDDLE: Final = 1_000_000
"""Characters from the first to the last change up to which a diff is computed."""
_BLOCK: Final = 64 * 1024
"""Characters that are compared at once: slices that fit the processor's cache."""
_CONTEXT: Final = 3
_NO_FINAL_NEWLINE: Final = "\n\\ No newline at end of file"
"""What diff writes below a last line without a newline; as part of the line, it makes it differ from one with."""
_MAX_LINE_PAIRS: Final = 250_000
"""Old lines times new lines up to which difflib is used, whose time grows with the product."""


class Hunk(ToolOutput):
    """Lines that changed, with a few around them."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[str]
    """Each begins with ` `, `-` or `+`."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Old lines [a, b) became new lines [c, d); counted from 0."""

    a: int
    b: int
    c: int
    d: int


def compute_hunks(old: str, new: str) -> list[Hunk] | None:
    """Computes the hunks that lead from `old` to `new`; null where they are too long to show."""
    if "\n" not in old and "\n" not in new:
        # Lines as they ended on the first Macintosh: Read shows them as lines, too.
        old, new = old.replace("\r", "\n"), new.replace("\r", "\n")
    start, end = _find_common_ends(old, new)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(middle_old), len(middle_new)) > _MAX_MIDDLE:
        return None
    skipped = old.count("\n", 0, start)
    before, after = _split_lines(middle_old, last=end == 0), _split_lines(middle_new, last=end == 0)
    found: list[Hunk] = []
    size = 0
    for group in _group_changes(_find_changes(before, after)):
        hunk = _build_hunk(group, before, after, skipped)
        size += sum(map(len, hunk.lines))
        if size > MAX_PATCH_CHARS:
            return None
        found.append(hunk)
    return found


def _find_common_ends(old: str, new: str) -> tuple[int, int]:
    """How many characters at the beginning and the end are the same: whole lines, less the context of a hunk."""
    start = _count_same(min(len(old), len(new)), lambda first, last: old[first:last] == new[first:last])
    for _ in range(_CONTEXT + 1):
        start = old.rfind("\n", 0, max(0, start - 1)) + 1 if start else 0
    room = min(len(old), len(new)) - start
    shift = len(new) - len(old)

    def same_ends(first: int, last: int) -> bool:
        return old[len(old) - last : len(old) - first] == new[len(old) - last + shift : len(old) - first + shift]

    end = _count_same(room, same_ends)
    edge = len(old) - end
    for _ in range(_CONTEXT + 1):
        edge = old.find("\n", edge) + 1 or len(old)
    return start, len(old) - edge


def _count_same(most: int, same: Callable[[int, int], bool]) -> int:
    """How many characters are the same from 0 on. Compares whole slices, since one by one takes too long."""
    low = 0
    while low < most and same(low, min(low + _BLOCK, most)):
        low = min(low + _BLOCK, most)
    most = min(low + _BLOCK, most)
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if same(low, middle) else (low, middle - 1)
    return low


def format_unified(path: str, found: list[Hunk] | None) -> str | None:
    """Formats hunks as `diff -u` does."""
    if found is None:
        return None
    parts = [f"--- {path}\n+++ {path}\n"]
    for hunk in found:
        old = f"{hunk.old_start},{hunk.old_lines}"
        new = f"{hunk.new_start},{hunk.new_lines}"
        parts.append(f"@@ -{old} +{new} @@\n")
        parts.extend(f"{line}\n" for line in hunk.lines)
    return "".join(parts)


def _split_lines(text: str, *, last: bool) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    elif last:
        lines[-1] += _NO_FINAL_NEWLINE
    return lines


def _find_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[_Change]:
    start = _count_common(before, after, range(min(len(before), len(after))))
    room = min(len(before), len(after)) - start
    end = _count_common(before, after, range(-1, -room - 1, -1))
    yield from _diff_part(before, after, _Change(start, len(before) - end, start, len(after) - end), deeper=True)


def _count_common(before: Sequence[str], after: Sequence[str], places: range) -> int:
    for count, place in enumerate(places):
        if before[place] != after[place]:
            return count
    return len(places)


def _diff_part(before: Sequence[str], after: Sequence[str], part: _Change, *, deeper: bool) -> Iterator[_Change]:
    if part.a == part.b and part.c == part.d:
        return
    if (part.b - part.a) * (part.d - part.c) <= _MAX_LINE_PAIRS:
        matcher = SequenceMatcher(None, before[part.a : part.b], after[part.c : part.d])
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                yield _Change(part.a + a, part.a + b, part.c + c, part.c + d)
    elif deeper:
        for gap in _split_at_anchors(before, after, part):
            yield from _diff_part(before, after, gap, deeper=False)
    else:
        yield part


def _split_at_anchors(before: Sequence[str], after: Sequence[str], part: _Change) -> Iterator[_Change]:
    """Splits a part at its anchors: lines that occur once on each side, in the same order (patience diff)."""
    a, c = part.a, part.c
    for old, new in _find_anchors(before, after, part):
        yield _Change(a, old, c, new)
        a, c = old + 1, new + 1
    yield _Change(a, part.b, c, part.d)


def _find_anchors(before: Sequence[str], after: Sequence[str], part: _Change) -> list[tuple[int, int]]:
    in_old = Counter(before[part.a : part.b])
    in_new = Counter(after[part.c : part.d])
    places = {line: place for place, line in enumerate(after[part.c : part.d], part.c) if in_new[line] == 1}
    pairs = [
        (place, places[line])
        for place, line in enumerate(before[part.a : part.b], part.a)
        if in_old[line] == 1 and line in places
    ]
    return _find_longest_rising(pairs)


def _find_longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs whose second number rises too."""
    ends: list[int] = []
    last: list[int] = []
    earlier: list[int] = []
    for index, (_, new) in enumerate(pairs):
        place = bisect_left(ends, new)
        earlier.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [new]
        last[place : place + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = earlier[index]
    return chain[::-1]


def _group_changes(changes: Iterator[_Change]) -> Iterator[list[_Change]]:
    """Groups changes whose context lines overlap: they become one hunk."""
    group: list[_Change] = []
    for change in changes:
        if group and change.a - group[-1].b > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _build_hunk(group: list[_Change], before: Sequence[str], after: Sequence[str], skipped: int) -> Hunk:
    old_start = max(0, group[0].a - _CONTEXT)
    new_start = max(0, group[0].c - _CONTEXT)
    old_end = min(len(before), group[-1].b + _CONTEXT)
    new_end = min(len(after), group[-1].d + _CONTEXT)
    lines: list[str] = []
    place = old_start
    for change in group:
        lines += [f" {line}" for line in before[place : change.a]]
        lines += [f"-{line}" for line in before[change.a : change.b]]
        lines += [f"+{line}" for line in after[change.c : change.d]]
        place = change.b
    lines += [f" {line}" for line in before[place:old_end]]
    old_lines, new_lines = old_end - old_start, new_end - new_start
    return Hunk(
        # For an empty side, diff gives the number of the line before.
        old_start=skipped + old_start + (1 if old_lines else 0),
        old_lines=old_lines,
        new_start=skipped + new_start + (1 if new_lines else 0),
        new_lines=new_lines,
        lines=lines,
    )


def render_snippet(found: list[Hunk] | None, limit: int = 60) -> str:
    """Renders the changed passages as they are now, with line numbers."""
    parts: list[str] = []
    for hunk in found or []:
        number = hunk.new_start
        for line in hunk.lines:
            if line.startswith("-"):
                continue
            if len(parts) >= limit:
                return "\n".join([*parts, "…"])
            parts.append(number_line(number, cut_line(line[1:].removesuffix(_NO_FINAL_NEWLINE).removesuffix("\r"))))
            number += 1
        parts.append("")
    return "\n".join(parts).rstrip("\n")
