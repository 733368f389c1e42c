"""A call as rows: what it does, how it went, and the part of its result that says most."""

import re
from collections import deque
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from ostler.clients.cli.output import fit, format_count
from ostler.clients.cli.render.blocks.rows import Row, clean, fit_row, make_row
from ostler.clients.cli.render.turn import strip_error_tags
from ostler.protocol.shapes import Call

TAIL_LINES: Final = 5
"""Of what a command prints, so many of the last lines are shown while it runs."""
_END_LINES: Final = 8
_RESULT_LINES: Final = 6
_DIFF_ROWS: Final = 60
_LONGEST_PATCH: Final = 400_000
_LONGEST_WORDS: Final = 2_000
"""Lines that are longer are compared as a whole, and not word by word."""
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_WORDS: Final = re.compile(r"\w+|\s+|.")
_BAR: Final = ("  │ ", "dim")
QUIET_ACTIVITIES: Final = frozenset({"read", "search", "list"})
"""Calls that only look: a group of them is one line."""


def render_call(call: Call, columns: int, *, sign: str, role: str, facts: Sequence[str] = (), indent: str = "") -> Row:
    """What a call does, in one row; its facts stand at the end and are never cut."""
    summary = clean(" ".join(call.summary.split()))
    summary = summary.removeprefix(f"{call.tool} ") if call.summary.startswith(f"{call.tool} ") else summary
    end = "".join(f" {fact}" for fact in facts)
    head = fit_row(
        make_row((f"{indent}{sign} ", role), (clean(call.tool), "bold"), (f" {summary}", "")), columns - len(end)
    )
    return (*head, *make_row((end, "red" if role == "red" else "dim")))


def format_seconds(milliseconds: float) -> str:
    seconds = milliseconds / 1000
    return (
        f"{seconds:.1f} s" if seconds < 10 else f"{int(seconds)} s" if seconds < 60 else _format_minutes(int(seconds))
    )


def _format_minutes(seconds: int) -> str:
    return f"{seconds // 60} min {seconds % 60} s"


def render_result(call: Call, columns: int) -> list[Row]:
    """The end of what a command printed, the beginning of any other result."""
    texts = [str(block.get("text", "")) for block in call.content or [] if block.get("type") == "text"]
    lines = [line for text in texts for line in strip_error_tags(text).splitlines()]
    return render_end(lines, columns) if call.activity == "run" else _render_begin(lines, columns, failed=call.is_error)


def render_end(lines: list[str], columns: int, most: int = _END_LINES) -> list[Row]:
    """The last lines; where some are left out, how many."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    shown = lines[-most:]
    left = len(lines) - len(shown)
    head = [make_row(_BAR, (f"… {format_count(left, 'line')} before", "dim"))] if left else []
    return [fit_row(row, columns) for row in (*head, *(make_row(_BAR, (_clean_line(line), "dim")) for line in shown))]


def _render_begin(lines: list[str], columns: int, *, failed: bool) -> list[Row]:
    role = "red" if failed else "dim"
    rows = [make_row(_BAR, (_clean_line(line), role)) for line in lines[:_RESULT_LINES]]
    left = len(lines) - len(rows)
    if left > 0:
        rows.append(make_row(_BAR, (f"… {format_count(left, 'line')} more", "dim")))
    return [fit_row(row, columns) for row in rows]


def _clean_line(line: str) -> str:
    """A line as it stands at last: what is drawn again and again begins anew at each return."""
    return clean(line.rstrip("\r").rpartition("\r")[2][:2000])


def join_tail(lines: deque[str], printed: str) -> None:
    """Add what a command printed to its last lines."""
    pieces = printed.split("\n")
    if lines:
        pieces[0] = lines.pop() + pieces[0]
    lines.extend(piece[-2000:] for piece in pieces)


def describe_group(calls: Sequence[Call]) -> str:
    """Several calls that only looked, in a few words."""
    words: list[str] = []
    for activity, verb, noun in (
        ("read", "read", "file"),
        ("search", "searched for", "pattern"),
        ("list", "listed", "folder"),
    ):
        found = [call for call in calls if call.activity == activity]
        if found:
            about = ", ".join(
                dict.fromkeys(fit(clean(call.summary.removeprefix(f"{call.tool} ")), 40) for call in found)
            )
            words.append(f"{verb} {format_count(len(found), noun)}: {about}" if len(found) > 1 else f"{verb} {about}")
    text = "; ".join(words)
    return text[:1].upper() + text[1:]


def render_diff(patch: str, columns: int, most: int = _DIFF_ROWS) -> list[Row]:
    """A patch with the numbers of its lines, and marks on the words that changed."""
    if len(patch) > _LONGEST_PATCH:
        added, removed = patch.count("\n+"), patch.count("\n-")
        words = f"{format_count(added, 'line')} added, {removed:,} removed: too much to be shown; /diff opens it"
        return [fit_row(make_row(_BAR, (words, "dim")), columns)]
    rows = _render_patch_lines(patch.removesuffix("\n").split("\n"))
    left = len(rows) - most
    if left > 0:
        rows = [*rows[:most], make_row(_BAR, (f"… {format_count(left, 'line')} more", "dim"))]
    return [fit_row(row, columns) for row in rows]


def _render_patch_lines(lines: list[str]) -> list[Row]:
    rows: list[Row] = []
    removed, added = list[str](), list[str]()
    old = new = left_old = left_new = hunks = 0
    width = len(str(max((int(found[3]) for line in lines if (found := _HUNK.match(line))), default=0) + len(lines)))

    def flush() -> None:
        rows.extend(_render_change(removed, added, old - len(removed), new - len(added), width))
        removed.clear()
        added.clear()

    for line in lines:
        if left_old > 0 or left_new > 0:
            sign, text = line[:1], line[1:]
            if sign == "-":
                if added:
                    flush()
                removed.append(text)
                old, left_old = old + 1, left_old - 1
            elif sign == "+":
                added.append(text)
                new, left_new = new + 1, left_new - 1
            elif sign == "\\":
                continue
            else:
                flush()
                rows.append(_render_line(new, " ", [(_clean_line(text), "")], width, ""))
                old, new, left_old, left_new = old + 1, new + 1, left_old - 1, left_new - 1
        elif found := _HUNK.match(line):
            flush()
            if hunks:
                rows.append(make_row(("  ", ""), (" " * width, ""), (" ⋮", "dim")))
            hunks += 1
            old, new = int(found[1]), int(found[3])
            left_old, left_new = int(found[2] or 1), int(found[4] or 1)
    flush()
    return rows


def _render_change(removed: list[str], added: list[str], old: int, new: int, width: int) -> list[Row]:
    """Lines that were replaced; where one stands for one, with marks on their words."""
    pairs = len(removed) == len(added)
    before: list[Row] = []
    after: list[Row] = []
    for at, text in enumerate(removed):
        runs = _mark_words(text, added[at], "removed") if pairs else [(_clean_line(text), "removed")]
        before.append(_render_line(old + at, "-", runs, width, "removed"))
    for at, text in enumerate(added):
        runs = _mark_words(text, removed[at], "added") if pairs else [(_clean_line(text), "added")]
        after.append(_render_line(new + at, "+", runs, width, "added"))
    return [*before, *after]


def _mark_words(text: str, other: str, role: str) -> list[tuple[str, str]]:
    if len(text) + len(other) > _LONGEST_WORDS:
        return [(_clean_line(text), role)]
    mine, theirs = _WORDS.findall(text), _WORDS.findall(other)
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    if matcher.ratio() < 0.4:  # two lines that have little in common are two lines
        return [(_clean_line(text), role)]
    runs: list[tuple[str, str]] = []
    for kind, begin, end, _, _ in matcher.get_opcodes():
        words = clean("".join(mine[begin:end]))
        runs.append((words, role if kind == "equal" else f"{role}_word"))
    return runs


def _render_line(number: int, sign: str, runs: list[tuple[str, str]], width: int, role: str) -> Row:
    return make_row((f"  {number:>{width}} ", "dim"), (f"{sign} ", role), *runs)
